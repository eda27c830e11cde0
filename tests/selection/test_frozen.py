"""The frozen choice as an entry of the chain, and the digests of what it rests on."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sweeper.selection.comparison import compare
from sweeper.selection.frozen import (
    Frozen,
    FrozenCheckpoint,
    Role,
    Tables,
    environment_digest,
    tables_of,
    trials_digest,
)

FROZEN = Frozen(
    number=2,
    arm="half",
    sentence="half is chosen.",
    answer="Yes.",
    protocol="f" * 64,
    tables=Tables(trials="1" * 64, arms="2" * 64, differences="3" * 64),
    checkpoints=(
        FrozenCheckpoint(
            role=Role.CHOSEN,
            arm="half",
            seed=0,
            path="trials/half-0/attempts/1/adapter",
            sha256="a" * 64,
        ),
        FrozenCheckpoint(role=Role.INITIAL, arm=None, seed=0, path=None, sha256="c" * 64),
    ),
    without_weights=("baseline/0",),
    metric="loss",
    environment="e" * 64,
    open_trials=("half/1",),
    reasons=("the machine is needed", "a typo"),
)


def test_it_comes_back_from_json_as_it_was():
    assert Frozen.from_facts(json.loads(json.dumps(FROZEN.to_facts()))) == FROZEN


@pytest.mark.parametrize(
    "change", [{"tables": None}, {"checkpoints": [{}]}, {"number": 1, "colour": "red"}]
)
def test_what_is_no_frozen_choice_is_refused(change):
    with pytest.raises(ValueError, match="no frozen choice"):
        Frozen.from_facts({**FROZEN.to_facts(), **change})


def test_it_is_partial_when_trials_were_open():
    assert FROZEN.is_partial
    assert not dataclasses.replace(FROZEN, open_trials=()).is_partial


def test_optuna_is_told_the_choice_and_its_place_in_the_chain():
    assert FROZEN.mirrored("d" * 64) == {
        "arm": "half",
        "sentence": "half is chosen.",
        "protocol": "f" * 64,
        "number": 2,
        "digest": "d" * 64,
    }


@pytest.fixture
def study(make_study):
    return make_study({"baseline": [1.602, 1.598, 1.611], "half": [1.590, 1.589, 1.596]})


def test_one_loss_more_or_less_changes_the_digests_of_trials_arms_and_differences(study):
    first, *rest = study.cells
    loss = first.validation_loss + 1e-15
    assert loss != first.validation_loss
    other = dataclasses.replace(
        study, cells=(dataclasses.replace(first, validation_loss=loss), *rest)
    )

    before, after = tables_of(study, compare(study)), tables_of(other, compare(other))

    assert before.trials != after.trials
    assert before.arms != after.arms
    assert before.differences != after.differences


def test_the_order_in_which_trials_are_listed_does_not_matter(study):
    turned = dataclasses.replace(study, cells=study.cells[::-1])

    assert trials_digest(turned) == trials_digest(study)


def test_the_environment_of_those_trials_alone_counts(study):
    first, *rest = study.cells
    elsewhere = dataclasses.replace(first, environment={"device": "another"})
    other = dataclasses.replace(study, cells=(elsewhere, *rest))
    here, there = (first.arm, first.seed), (rest[0].arm, rest[0].seed)

    assert environment_digest(other, [here]) != environment_digest(study, [here])
    assert environment_digest(other, [there]) == environment_digest(study, [there])
