"""`sweeper replay`: what is refused before anything is run; a replay itself is in tests/flow."""

import pytest

from sweeper.cli.replay import one_change
from sweeper.errors import UserError
from sweeper.trial.replay.request import OtherPrecision, OtherRate, WithoutRecord

RATE = "training.learning_rate=1e-4"
PRECISION = "training.precision=bfloat16"


@pytest.mark.parametrize(
    ("settings", "records", "change"),
    [
        ([], [], None),
        ([RATE], [], OtherRate(value=1e-4)),
        ([PRECISION], [], OtherPrecision(value="bfloat16")),
        ([], ["17"], WithoutRecord(record="17")),
        ([], ["0abc"], WithoutRecord(record="0abc")),
    ],
)
def test_one_thing_or_nothing_is_changed(settings, records, change):
    assert one_change(settings, records) == change


@pytest.mark.parametrize(
    ("settings", "records"),
    [
        ([RATE, PRECISION], []),
        ([RATE, "training.learning_rate=2e-4"], []),
        ([RATE], ["17"]),
        ([], ["17", "18"]),
        ([RATE, PRECISION], ["17"]),
    ],
)
def test_two_changes_are_refused(settings, records):
    with pytest.raises(UserError, match="a replay changes one thing"):
        one_change(settings, records)


@pytest.mark.parametrize(
    "setting", ["training.clip_norm=1", "learning_rate=1e-4", "seed=3", "=", "training.precision "]
)
def test_another_key_is_refused_and_the_three_are_named(setting):
    with pytest.raises(UserError) as refused:
        one_change([setting], [])

    (fault,) = refused.value.faults
    assert fault.expected == (
        "training.learning_rate=RATE, training.precision=PRECISION, or --without-record RECORD"
        " instead"
    )


@pytest.mark.parametrize("value", ["", "fast", "0", "-1e-4", "1.5", "nan", "inf"])
def test_what_is_no_rate_is_refused(value):
    with pytest.raises(UserError, match="this is no learning rate"):
        one_change([f"training.learning_rate={value}"], [])


@pytest.mark.parametrize("value", ["", "auto", "float64", "half"])
def test_what_is_no_precision_is_refused(value):
    with pytest.raises(UserError, match="float32, bfloat16 or float16"):
        one_change([f"training.precision={value}"], [])


def test_two_changes_are_the_user_s_mistake_in_one_clear_message(sweeper, begun):
    arguments = ("replay", "study.yaml", "double/0", "--set", RATE, "--without-record", "17")

    ran = sweeper(*arguments)

    assert ran.status == 2
    assert ran.out == ""
    assert ran.err == (
        "error: a replay changes one thing, or it would not show which of them matters (got"
        " training.learning_rate=1e-4, --without-record 17; expected one --set, or one"
        " --without-record). Run one replay for each.\n"
    )
    assert not (begun.folder.path / "replays").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("double/7",), "the study has no trial double/7"),
        (("double/2",), "double/2 has no attempt to replay"),
        (("half/1",), "half/1 has no attempt to replay"),
        (("baseline/0", "--attempt", "3"), "baseline/0 has no attempt 3 (expected 1, 2)"),
    ],
    ids=["unknown", "waiting", "lost before it began", "no such attempt"],
)
def test_what_is_not_there_is_the_user_s_mistake(sweeper, begun, arguments, message):
    ran = sweeper("replay", "study.yaml", *arguments)

    assert ran.status == 2
    assert f"error: {message}" in ran.err


def test_a_number_of_windows_is_at_least_one(sweeper, begun):
    assert sweeper("replay", "study.yaml", "double/0", "--windows", "0").status == 2


def test_a_study_without_its_prepared_data_is_refused(sweeper, begun):
    """The recorded studies of these tests were never prepared."""
    ran = sweeper("replay", "study.yaml", "double/0")

    assert ran.status == 2
    assert "prepared" in ran.err
