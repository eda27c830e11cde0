"""What attempts on record started from, against what the chain sealed when they ended."""

from __future__ import annotations

import pytest

from sweeper.report.auditing import audit
from sweeper.selection.chain import EntryKind, link_after
from sweeper.store.interventions import Intervention

ABOUT = "Trials on record"
OF_THE_START = ("initial_digest", "environment_sha256", "configuration_sha256", "resume_sha256")


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("configuration = replace(configuration, 'lora', 'full')", "the configuration it was told"),
        ("environment = replace(environment, 'float32', 'bfloat16')", "the environment it ran in"),
        ("initial_digest = 'other tensors'", "the tensors it started from"),
        ("resume_differences = '[]'", "what it went on from"),
    ],
    ids=["configuration", "environment", "tensors", "resume"],
)
def test_an_input_of_the_gates_that_was_changed(decided, change, findings, column, found):
    change(decided, f"UPDATE sweeper_attempt SET {column} WHERE cell = 'half/1'")

    (finding,) = findings(decided, ABOUT)
    assert finding.startswith(f"half/1, attempt 1: {found} on record ")
    assert finding.endswith(" not what the chain sealed when it ended.")


def test_what_an_earlier_version_did_not_seal_is_not_compared(decided, change, findings):
    with decided.open() as store:
        links = store.chain.links()
    change(decided, "DELETE FROM sweeper_chain")
    with decided.open() as store:
        store.chain.restore(without(links, OF_THE_START))
    change(decided, "UPDATE sweeper_attempt SET environment = '{}' WHERE cell = 'half/1'")

    assert findings(decided, "The chain in the database") == []
    assert findings(decided, ABOUT) == []
    (remark,) = remarks(decided)
    assert remark.startswith("Of 10 attempts the chain has not sealed what they started from")


def remarks(study):
    (found,) = (check for check in audit(study.file).checks if check.about == ABOUT)
    return found.remarks


def without(links, names):
    anew = []
    for link in links:
        facts = {name: fact for name, fact in link.facts.items() if name not in names}
        last = anew[-1] if anew else None
        anew.append(link_after(last, EntryKind(link.kind), facts, at=link.at))
    return anew


@pytest.mark.parametrize(
    ("statement", "has"),
    [
        ("outcome = 'stopped', reason = 'diverged'", "stopped (diverged)"),
        ("outcome = NULL, reason = NULL, status = 'waiting'", "waiting"),
        ("outcome = NULL, reason = NULL, status = 'not_run'", "not_run"),
    ],
    ids=["another outcome", "to be run again", "not run"],
)
def test_a_trial_whose_outcome_is_not_its_last_attempt_s(decided, change, findings, statement, has):
    change(decided, f"UPDATE sweeper_cell SET {statement} WHERE cell = 'half/1'")

    (finding,) = findings(decided, ABOUT)
    assert finding == (
        f"half/1 is on record as {has}: its last attempt left it as completed (budget_reached), "
        "and nobody changed that by hand."
    )


def test_trials_in_mid_run_are_as_their_attempts_left_them(begun, findings):
    """Completed, stopped, failed, lost for good, running and waiting ones."""
    assert findings(begun, ABOUT) == []


def test_what_users_did_to_trials_is_no_finding(studies, tmp_path, findings):
    """One opened again, one cancelled, and the rest ended with the study."""
    recorded = studies.begin(tmp_path)
    with recorded.open() as store:
        assert store.reopen("baseline/1", kind=Intervention.RETRY, from_the_start=True)
        opened_again = findings(recorded, ABOUT)
        assert store.cancel("half/2", "nobody needs it")
        store.close_study("enough is known")

    assert opened_again == []
    assert findings(recorded, ABOUT) == []
