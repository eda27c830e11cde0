"""A cell to which an engine gives the wrong node waits, longer each time, and is not used up."""

import pytest

from sweeper.records import Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.sweep.wrong_nodes import WrongNodes
from sweeper.trial.surroundings import other_environment

WRONG = other_environment({"device": "H100"}, {"device": "A100"})
KILLED = Outcome(reason=Reason.KILLED, detail="")
ELSEWHERE = Owner(worker="local", host="another-host", pid=1, started_at="1.0")


@pytest.fixture
def nodes(clock):
    return WrongNodes(clock)


def test_the_cell_waits_and_the_others_do_not(nodes, clock, store):
    told = nodes.ended("half/0", WRONG)

    assert told.startswith("half/0: not where its seed began")
    assert "device H100 instead of A100; it is handed over again in 60 s" in told
    assert nodes.held_back(store) == {"half/0"}
    clock.seconds += 59
    assert nodes.held_back(store) == {"half/0"}
    clock.seconds += 1
    assert nodes.held_back(store) == frozenset()


def test_each_time_in_a_row_it_waits_twice_as_long_and_an_hour_at_the_most(nodes):
    told = [nodes.ended("half/0", WRONG) for _ in range(8)]

    seconds = [int(text.partition("over again in ")[2].partition(" s")[0]) for text in told]
    assert seconds == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_after_any_other_end_it_waits_no_longer_and_the_count_begins_anew(nodes, store):
    nodes.ended("half/0", WRONG)
    nodes.ended("half/0", WRONG)

    assert nodes.ended("half/0", KILLED) is None

    assert nodes.held_back(store) == frozenset()
    assert "again in 60 s" in nodes.ended("half/0", WRONG)


def test_a_cell_that_somebody_has_taken_up_is_not_waited_for(nodes, store):
    nodes.ended("half/0", WRONG)
    store.claim(ELSEWHERE, "cpu 1", cell="half/0")

    assert nodes.held_back(store) == frozenset()
