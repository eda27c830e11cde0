"""The frozen choice is computed anew by an audit: for honest records it comes to the same."""

from __future__ import annotations

import pytest

from sweeper.cli.main import main

BASELINE = (None, 1.598, 1.611, 1.605, 1.594)
HALF = (1.590, 1.589, 1.596, 1.597, 1.585)
ABOUT = "The frozen choice"


@pytest.fixture
def command():
    """Runs a command that has to succeed."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        assert end.value.code == 0

    return run


@pytest.fixture
def without_baseline(founded_only, command):
    """The baseline was stopped in a seed, and half is frozen because of that."""
    founded_only.stop("baseline/0")
    for seed, loss in enumerate(BASELINE[1:], start=1):
        founded_only.complete(f"baseline/{seed}", loss)
    for seed, loss in enumerate(HALF):
        founded_only.complete(f"half/{seed}", loss)
    command("select", founded_only.file)
    with founded_only.open() as store:
        assert store.frozen().sentence.startswith("half is chosen because baseline is ineligible")
    return founded_only


@pytest.fixture
def with_metrics(frozen, command, tmp_path):
    """Metrics were attached after the freeze."""
    metrics = tmp_path / "metrics.csv"
    metrics.write_text("trial,bleu\nhalf/0,21.5\nbaseline/0,20.5\n")
    command("attach", frozen.file, metrics)
    return frozen


@pytest.fixture
def frozen_again(frozen, command):
    command("select", frozen.file, "--reason", "a typo")
    return frozen


@pytest.mark.parametrize("kind", ["frozen", "without_baseline", "with_metrics", "frozen_again"])
def test_a_record_that_nobody_changed_gives_the_choice_that_was_frozen(kind, request, findings):
    assert findings(request.getfixturevalue(kind), ABOUT) == []


def test_a_loss_of_one_window_that_was_changed_changes_nothing_that_was_chosen_by(
    frozen, change, findings
):
    change(frozen, "UPDATE sweeper_update SET loss = 1.9 WHERE cell = 'half/1' AND window = 2")

    assert findings(frozen, ABOUT) == []


def test_a_choice_that_was_made_anew_by_other_losses_is_found_also_in_a_chain_of_its_own(
    frozen, change, findings
):
    """The losses of both arms were shifted alike: differences, choice and answer stay."""
    change(
        frozen,
        "UPDATE sweeper_evaluation SET loss = loss + 0.125 WHERE grid_index = 1"
        " AND split = 'validation'",
    )

    found = findings(frozen, ABOUT)

    assert "The outcomes and losses of trials on record are not those that it was frozen from." in (
        found
    )
    assert not any("choice" in each for each in found)
