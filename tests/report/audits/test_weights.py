"""Weights that completed trials left, against the digests that the chain sealed."""

from __future__ import annotations

import shutil

from sweeper.report.auditing import audit

ABOUT = "The weights of trials"


def weights_check(study):
    (found,) = (each for each in audit(study.file).checks if "weights of" in each.about)
    return found


def test_before_anything_is_frozen_the_weights_of_every_trial_are_looked_at(decided):
    found = weights_check(decided)

    assert (found.about, found.looked_at) == (ABOUT, "10 folders")
    assert (found.findings, found.remarks) == ((), ())


def test_a_changed_byte_in_them(decided):
    decided.weights("half/2").write_text("weights of half/3")

    (finding,) = weights_check(decided).findings
    assert finding.startswith(
        "half/2, attempt 1: the weights in trials/half-2/attempts/1/adapter are not those that it "
        "left: SHA-256 "
    )
    assert finding.endswith(" then.")


def test_the_lowest_ones_that_a_trial_kept_are_looked_at_as_well(decided, recorded_studies):
    """Another folder of weights, with a digest that is not its own."""
    cell = recorded_studies.PlannedCell("half/9", "half", 9, 0.0001)
    best = decided.weights("half/9").parents[1] / "best"
    best.mkdir(parents=True)
    with decided.open() as store:
        store.add_cells([cell])
    complete_with_best(decided, recorded_studies)

    (finding,) = weights_check(decided).findings
    assert finding.startswith("half/9, attempt 1: the weights in trials/half-9/attempts/1/best are")
    assert finding.endswith("bbbbbbbbbbbb then.")


def complete_with_best(study, facts):
    from sweeper.records import Artifact, Outcome, Reason

    with study.open() as store:
        claim = store.claim(facts.dead_owner(), "cpu:0", cell="half/9")
        best = Artifact(kind="best", path="best", sha256="b" * 64)
        facts.report(store, claim, facts.started("half/9"), best)
        done = Outcome(reason=Reason.BUDGET_REACHED, detail="read 30 of 30 target tokens")
        store.finish(claim, done, max_resumes=0)


def test_weights_that_are_gone_are_told_and_no_finding(decided):
    shutil.rmtree(decided.weights("half/2").parent)
    shutil.rmtree(decided.weights("baseline/4").parent)

    found = weights_check(decided)

    assert (found.looked_at, found.findings) == ("8 folders", ())
    assert found.remarks == (
        "Those of half/2, attempt 1 and baseline/4, attempt 1 are gone, and were not compared.",
    )


def test_frozen_weights_are_not_read_twice(frozen, findings):
    frozen.weights("half/2").write_text("other weights")

    assert (weights_check(frozen).about, weights_check(frozen).looked_at) == (
        "The weights of other trials",
        "0 folders",
    )
    assert len(findings(frozen)) == 1
