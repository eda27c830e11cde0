"""The environment of a trial whose attempts did not all run on the same."""

import pytest

from sweeper.report.environments import environment_of
from sweeper.store.reading import Start


def start(environment, *, after_window=0):
    return Start(
        cell="half/0",
        arm="half",
        seed=0,
        attempt=1,
        resumed_after_window=after_window,
        resume_differences=(),
        initial_digest="d0",
        trainable_parameters=1,
        adapted_modules=(),
        environment=environment,
        configuration={},
    )


def test_what_stayed_the_same_is_told_once():
    stretches = [start({"device": "cpu", "ranks": "1"})] * 3

    assert environment_of(stretches) == {"device": "cpu", "ranks": "1"}


def test_what_changed_is_told_with_the_windows_after_which_it_did():
    stretches = [
        start({"device": "cpu"}),
        start({"device": "H200"}, after_window=40),
        start({"device": "H200"}, after_window=60),
        start({"device": "cpu"}, after_window=80),
    ]

    assert environment_of(stretches) == {
        "device": "cpu, then H200 after window 40, then cpu after window 80"
    }


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({}, {"cuda": "12.8"}, "not recorded, then 12.8 after window 40"),
        ({"cuda": "12.8"}, {}, "12.8, then not recorded after window 40"),
    ],
)
def test_a_field_that_comes_or_goes_is_a_change(first, second, told):
    assert environment_of([start(first), start(second, after_window=40)]) == {"cuda": told}


def test_two_trials_that_changed_at_different_places_do_not_have_the_same():
    early, late = (
        environment_of([start({"ranks": "1"}), start({"ranks": "2"}, after_window=window)])
        for window in (40, 41)
    )

    assert early != late
