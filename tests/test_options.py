"""Scalars with units, and option classes that take nothing for granted."""

import pytest
from pydantic import ValidationError

from sweeper.options import Duration, Options, Positive, Rate, Size, duration_seconds, size_bytes


class Sample(Options):
    count: Positive = 1
    rate: Rate = 0.1
    hang: Duration = "10m"
    memory: Size = "1GiB"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172800), ("3 m", 180)]
)
def test_a_duration_is_a_number_with_its_unit(text, seconds):
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["90:00", "90", "0s", "-3m", "1w", "", "m"])
def test_a_duration_without_unit_or_not_above_zero_is_refused(text):
    with pytest.raises(ValueError, match="90s, 10m, 2h or 1d"):
        duration_seconds(text)


@pytest.mark.parametrize(
    ("text", "size"), [("1KiB", 1024), ("512MiB", 536870912), ("1.5GiB", 1610612736)]
)
def test_a_size_is_a_number_with_its_binary_unit(text, size):
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["16GB", "16", "0GiB", "16 G", "lots"])
def test_a_size_in_another_unit_is_refused(text):
    with pytest.raises(ValueError, match="512MiB or 16GiB"):
        size_bytes(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"count": 0}',
        '{"count": true}',
        '{"count": 1.0}',
        '{"count": "1"}',
        '{"rate": 0}',
        '{"rate": NaN}',
        '{"rate": Infinity}',
        '{"rate": 500000.0}',
        '{"rate": true}',
        '{"rate": "1e-4"}',
        '{"hang": "90:00"}',
        '{"memory": "16GB"}',
        '{"unknown": 1}',
    ],
)
def test_an_option_is_never_turned_from_one_type_into_another(text):
    with pytest.raises(ValidationError):
        Sample.model_validate_json(text)


def test_an_option_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError, match="frozen"):
        Sample().count = 2
