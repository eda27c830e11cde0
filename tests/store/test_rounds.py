"""Arms added to a study: in one transaction, when every cell has ended, one round after another."""

from __future__ import annotations

import pytest

from sweeper.selection.chain import EntryKind
from sweeper.selection.evidence import Arm

FACTS = {"extension": "x4", "round": 1}


@pytest.fixture
def next_cells(make_cell):
    return [make_cell(f"x4/{seed}", "x4", seed, 0.0008, round=1) for seed in (0, 1)]


@pytest.fixture
def ended(store):
    """A study whose every cell has ended."""
    for cell in store.cells():
        store.cancel(cell.cell, "by hand")
    store.end_study("every cell has ended")
    return store


def test_a_round_lets_the_study_go_on_after_its_other_cells(ended, next_cells):
    added = ended.rounds.add(next_cells, FACTS)

    assert added
    assert [(cell.cell, cell.round) for cell in ended.cells()] == [
        ("baseline/0", 0),
        ("double/0", 0),
        ("baseline/1", 0),
        ("double/1", 0),
        ("x4/0", 1),
        ("x4/1", 1),
    ]
    assert ended.study().ended_why is None
    assert ended.chain.last(EntryKind.NOTE).facts == FACTS


def test_the_arms_are_the_declared_ones_and_then_the_rounds(ended, next_cells):
    ended.rounds.add(next_cells, FACTS)

    assert ended.rounds.arms() == (
        Arm(name="baseline", value=0.0002),
        Arm(name="double", value=0.0004),
        Arm(name="x4", value=0.0008, round=1),
    )
    assert list(ended.study().arms) == ["baseline", "double"]


def test_no_round_begins_while_a_cell_is_open(store, next_cells):
    before = store.cells(), store.chain.links()

    assert not store.rounds.add(next_cells, FACTS)

    assert (store.cells(), store.chain.links()) == before


@pytest.mark.parametrize("number", [0, 2])
def test_a_round_that_is_not_the_next_changes_nothing(ended, make_cell, number):
    cells = [make_cell("x4/0", "x4", 0, 0.0008, round=number)]

    assert not ended.rounds.add(cells, FACTS)

    assert len(ended.cells()) == 4


def test_the_same_round_is_added_once(ended, next_cells):
    ended.rounds.add(next_cells, FACTS)

    assert not ended.rounds.add(next_cells, FACTS)

    assert len(ended.cells()) == 6
