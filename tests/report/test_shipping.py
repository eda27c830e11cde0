"""Which weights are passed on, and what is refused."""

import dataclasses

import pytest

from sweeper.errors import NotFound, StudyConflict
from sweeper.report.dossier import read_dossier
from sweeper.report.shipping import Standing, shipment
from sweeper.training.folder_digest import folder_digest


def shipped(study, trial=None):
    return shipment(read_dossier(study.file), trial)


def test_it_is_the_first_declared_seed_of_the_chosen_arm(frozen):
    found = shipped(frozen)

    assert (found.name, found.standing) == ("half/0", Standing.FROZEN)
    assert found.weights == "trials/half-0/attempts/1/adapter"
    assert found.sha256 == folder_digest(frozen.folder.path / found.weights)
    assert found.validation_loss == 1.590
    assert found.environment["precision"] == "float32"


@pytest.mark.parametrize(
    ("trial", "standing"),
    [
        ("half/0", Standing.FROZEN),
        ("half/3", Standing.OTHER_SEED),
        ("baseline/0", Standing.OTHER),
    ],
)
def test_a_trial_that_is_named_says_what_it_is_to_the_choice(frozen, trial, standing):
    found = shipped(frozen, trial)
    assert (found.name, found.standing) == (trial, standing)


def test_before_a_freeze_a_trial_has_to_be_named(decided):
    with pytest.raises(StudyConflict, match=r"no choice has been frozen.*--trial T exports any"):
        shipped(decided)

    found = shipped(decided, "half/1")
    assert (found.name, found.standing) == ("half/1", Standing.OTHER)


def test_where_the_first_seed_has_no_weights_it_is_the_next_one(frozen):
    dossier = read_dossier(frozen.file)
    without = [each for each in dossier.frozen.checkpoints if (each.arm, each.seed) != ("half", 0)]
    fewer = dataclasses.replace(dossier.frozen, checkpoints=tuple(without))

    found = shipment(dataclasses.replace(dossier, frozen=fewer), None)

    assert (found.name, found.standing) == ("half/1", Standing.FROZEN)
    assert found.without_weights == (0,)


def test_with_a_broken_chain_there_is_no_frozen_choice_to_pass_on(frozen):
    dossier = read_dossier(frozen.file)
    broken = dataclasses.replace(dossier, links=[*dossier.links[:3], *dossier.links[4:]])

    with pytest.raises(StudyConflict, match="the chain is not whole"):
        shipment(broken, None)


def test_a_trial_that_was_not_completed_or_is_none_is_refused(founded_only):
    founded_only.stop("half/0")

    with pytest.raises(StudyConflict, match=r"only completed trials.*got stopped"):
        shipped(founded_only, "half/0")
    with pytest.raises(StudyConflict, match=r"only completed trials.*got waiting"):
        shipped(founded_only, "half/1")
    with pytest.raises(NotFound, match=r"no trial haf/1.*Did you mean half/1"):
        shipped(founded_only, "haf/1")
