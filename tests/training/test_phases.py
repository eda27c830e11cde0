"""What a trial is busy with, and the seconds spent on each, on a clock that a test moves."""

import pytest

from sweeper.records import Phase, PhaseBegun
from sweeper.training.phases import Phases


@pytest.fixture
def told():
    """Turns to the given phases, each at its second; returns what was reported."""

    def run(*turns):
        now, reports = [0.0], []
        phases = Phases(reports.append, lambda: now[0])
        for second, phase in turns:
            now[0] = second
            phases.begin(phase)
        return reports

    return run


def test_each_turn_tells_the_seconds_of_all_that_came_before(told):
    reports = told(
        (0.0, Phase.LOADING), (4.0, Phase.TRAINING), (10.0, Phase.EVALUATING), (11.0, Phase.ENDING)
    )
    assert reports == [
        PhaseBegun(phase=Phase.LOADING, seconds={}),
        PhaseBegun(phase=Phase.TRAINING, seconds={"loading": 4.0}),
        PhaseBegun(phase=Phase.EVALUATING, seconds={"loading": 4.0, "training": 6.0}),
        PhaseBegun(
            phase=Phase.ENDING, seconds={"loading": 4.0, "training": 6.0, "evaluating": 1.0}
        ),
    ]


def test_what_is_turned_to_again_adds_up(told):
    reports = told(
        (0.0, Phase.TRAINING),
        (3.0, Phase.CHECKPOINTING),
        (4.0, Phase.TRAINING),
        (9.0, Phase.ENDING),
    )
    assert reports[-1].seconds == {"training": 8.0, "checkpointing": 1.0}


def test_going_on_with_the_same_work_is_no_turn(told):
    reports = told((0.0, Phase.TRAINING), (3.0, Phase.TRAINING), (5.0, Phase.ENDING))
    assert [report.phase for report in reports] == [Phase.TRAINING, Phase.ENDING]
    assert reports[-1].seconds == {"training": 5.0}


def test_a_report_does_not_change_with_later_turns(told):
    first, second, _ = told((0.0, Phase.LOADING), (1.0, Phase.TRAINING), (2.0, Phase.ENDING))
    assert (first.seconds, second.seconds) == ({}, {"loading": 1.0})
