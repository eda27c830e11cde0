"""An attempt that is not where its seed began ends before it has done anything."""

import json

import pytest

from sweeper.records import Outcome, OutcomeKind, Reason
from sweeper.trial.ending import exit_status_of
from sweeper.trial.exit_status import ExitStatus
from sweeper.trial.surroundings import found_in, other_device, other_environment

BEGAN = {"device": "NVIDIA A100", "torch": "2.13.0"}


@pytest.mark.parametrize("began_with", [None, BEGAN])
def test_where_the_seed_began_it_runs(began_with):
    assert other_device("NVIDIA A100", began_with) is None
    assert other_environment(BEGAN, began_with) is None


def test_elsewhere_it_is_lost_with_both_values_of_every_field_that_differs():
    outcome = other_environment({"device": "NVIDIA H100", "torch": "2.14.0"}, BEGAN)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.LOST, Reason.PREEMPTED)
    assert outcome.detail == (
        "not where its seed began, so it goes on elsewhere: "
        "device NVIDIA H100 instead of NVIDIA A100; torch 2.14.0 instead of 2.13.0"
    )
    assert json.loads(outcome.evidence["environment_of_seed"]) == BEGAN
    assert found_in(outcome) == {"device": "NVIDIA H100", "torch": "2.14.0"}
    assert exit_status_of(outcome) is ExitStatus.ORDERLY


def test_another_device_is_seen_before_anything_is_loaded():
    outcome = other_device("cpu", BEGAN)

    assert outcome.detail.endswith("device cpu instead of NVIDIA A100")


def test_any_other_end_found_nothing():
    assert found_in(Outcome(reason=Reason.PREEMPTED, detail="asked to end")) == {}
