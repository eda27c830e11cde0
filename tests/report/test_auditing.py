"""What an audit says of a record that was tampered with, sentence by sentence."""

from __future__ import annotations

import json
import sqlite3

import pytest

from sweeper.report.auditing import audit, audit_of
from sweeper.selection.chain import EntryKind, Link, head, link_after

HALF_0_ENDED = 5
"""The number of that entry: the study, then baseline/0 and half/0, begun and ended each."""


def findings(study, **how):
    return [sentence for check in audit(study.file, **how).checks for sentence in check.findings]


@pytest.fixture
def change(frozen):
    """Changes the database behind everybody's back."""

    def run(statement, *values):
        connection = sqlite3.connect(frozen.folder.database)
        changed = connection.execute(statement, values).rowcount
        connection.commit()
        connection.close()
        assert changed > 0

    return run


def test_a_record_as_it_was_left_is_sound_and_says_its_head(frozen):
    found = audit(frozen.file)

    assert [(check.about, check.looked_at, check.findings) for check in found.checks] == [
        ("The chain in the database", "23 entries", ()),
        ("Its mirror in the run folder", "23 entries", ()),
        ("Trials on record", "10 attempts, 10 of them ended", ()),
        ("Changes by hand", "1 change", ()),
        ("The protocol", f"fingerprint {fingerprint(frozen)[:12]}", ()),
        ("Arms, seeds and cells", "2 arms, 10 cells", ()),
        ("The prepared data", "2 splits", ()),
        ("The weights of other trials", "0 folders", ()),
        ("The losses of single records", "0 files", ()),
        ("The frozen choice", "half, with 10 checkpoints", ()),
    ]
    assert found.is_sound
    assert found.head == json.loads(frozen.folder.chain.read_text().splitlines()[-1])["digest"]


def fingerprint(study):
    with study.open() as store:
        return store.study().fingerprint


def test_a_tampered_entry(frozen, change):
    change(
        "UPDATE sweeper_chain SET entry = replace(entry, 'completed', 'stopped') WHERE number = ?",
        HALF_0_ENDED,
    )

    assert findings(frozen) == [
        (
            "Entry 5 (trial_ended) does not have the digest it was sealed with: it was changed, or "
            "an entry before it was."
        ),
        "Entry 5 is another one in the mirror than in the database: one of the two was changed.",
        (
            "half/0, attempt 1: the record says completed (budget_reached), the chain stopped "
            "(budget_reached)."
        ),
    ]


def test_a_tampered_entry_that_is_no_entry_any_more(frozen, change):
    change("UPDATE sweeper_chain SET entry = 'gone', kind = 'nothing' WHERE number = 23")

    assert findings(frozen)[:2] == [
        (
            "Entry 23 (nothing) does not have the digest it was sealed with: it was changed, or "
            "an entry before it was."
        ),
        "Entry 23 is another one in the mirror than in the database: one of the two was changed.",
    ]


def test_a_chain_whose_tail_was_cut_in_the_database(frozen, change):
    change("DELETE FROM sweeper_chain WHERE number > 20")

    assert findings(frozen) == [
        (
            "The database's chain ends at entry 20, and the mirror goes on to entry 23: the chain "
            "was cut, or the database is an older copy."
        ),
        (
            "half/4, attempt 1, ended as completed (budget_reached), and the chain has no entry on "
            "it: entries were cut off, or it was put on record by other means."
        ),
        "Intervention 1 (close) is not in the chain as it is on record.",
    ]


def test_a_mirror_whose_tail_was_cut(frozen):
    cut_mirror(frozen, 22)

    assert findings(frozen) == [
        (
            "The mirror ends at entry 22 of 23: it was cut, or a coordinator was killed before it "
            "had written on, which the next one makes good."
        ),
    ]


def cut_mirror(study, lines):
    text = study.folder.chain.read_text().splitlines(keepends=True)
    study.folder.chain.write_text("".join(text[:lines]))


def test_a_tail_cut_in_both_shows_only_against_a_head_kept_elsewhere(frozen, change):
    """And against Optuna, who was told what was cut off."""
    kept = audit(frozen.file).head
    change("DELETE FROM sweeper_chain WHERE number = 23")
    change("DELETE FROM study_user_attributes WHERE key = 'sweeper_choice'")
    cut_mirror(frozen, 22)

    assert findings(frozen) == []
    assert findings(frozen, kept_head=kept) == [
        "It is none of the chain's digests: the chain was made anew since, or entries were cut off."
    ]


def test_a_head_kept_elsewhere_is_found_where_it_was(frozen):
    kept = json.loads(frozen.folder.chain.read_text().splitlines()[20])["digest"]

    *_, check = audit(frozen.file, kept_head=kept[:16]).checks

    assert check.is_sound
    assert check.remarks == ("It is that of entry 21; 2 entries came after it.",)


def test_a_chain_made_anew_agrees_with_itself_alone(frozen, change):
    """Both copies rewritten, half/0 with another outcome: only the record still says otherwise."""
    kept = audit(frozen.file).head
    with frozen.open() as store:
        links = rewritten(store.chain.links())
    change("DELETE FROM sweeper_chain")
    with frozen.open() as store:
        store.chain.restore(links)
    frozen.folder.chain.unlink()
    lines = [json.dumps({"digest": x.digest, "entry": json.loads(x.entry)}) for x in links]
    frozen.folder.chain.write_text("".join(f"{line}\n" for line in lines))

    assert findings(frozen, kept_head=kept) == [
        (
            "half/0, attempt 1: the record says completed (budget_reached), the chain stopped "
            "(budget_reached)."
        ),
        "What the Optuna study says of the choice is not what was frozen.",
        (
            "It is none of the chain's digests: the chain was made anew since, or entries were cut "
            "off."
        ),
    ]


def rewritten(links: tuple[Link, ...]) -> list[Link]:
    anew: list[Link] = []
    for link in links:
        facts = link.facts
        if link.number == HALF_0_ENDED:
            facts["outcome"] = "stopped"
        last = anew[-1] if anew else None
        anew.append(link_after(last, EntryKind(link.kind), facts, at=link.at))
    assert head(anew) != head(links)
    return anew


def test_a_changed_checkpoint(frozen):
    frozen.weights("half/2").write_text("other weights")

    (found,) = findings(frozen)
    assert found.startswith(
        "half/2: the weights in trials/half-2/attempts/1/adapter are not those that were frozen: "
        "SHA-256 "
    )
    assert found.endswith(" then.")


def test_a_checkpoint_that_is_gone(frozen):
    weights = frozen.weights("baseline/1")
    weights.unlink()
    weights.parent.rmdir()

    assert findings(frozen) == [
        "baseline/1: the frozen weights are gone from trials/baseline-1/attempts/1/adapter."
    ]


def test_a_changed_loss_in_the_database(frozen, change):
    change(
        "UPDATE sweeper_evaluation SET loss = 1.4 WHERE cell = 'half/1' AND grid_index = 1"
        " AND split = 'validation'"
    )

    *found, answer = findings(frozen)
    assert found == [
        "half/1, attempt 1: its evaluations on record are not what the chain sealed when it ended.",
        "The outcomes and losses of trials on record are not those that it was frozen from.",
        "The summaries of the arms that the record now gives are not those that were frozen.",
        (
            "The differences from the baseline that the record now gives are not those that were "
            "frozen."
        ),
        "The record now gives the choice baseline; half was frozen.",
        (
            "The record now gives another reason for the choice: baseline is kept: no other arm is "
            "shown to be better."
        ),
    ]
    assert answer.startswith("The record now gives another answer: Not shown: half (0.0001) - ")


def test_a_changed_start_that_breaks_a_gate_shows_in_the_frozen_choice(frozen, change):
    """No outcome and no loss of a trial differs by it: seed 0 of half is not comparable."""
    change("UPDATE sweeper_attempt SET initial_digest = '00' WHERE cell = 'half/0'")

    check = audit(frozen.file).checks[-1]

    assert check.findings[:3] == (
        (
            "The differences from the baseline that the record now gives are not those that were "
            "frozen."
        ),
        "The record now gives the choice baseline; half was frozen.",
        (
            "The record now gives another reason for the choice: baseline is kept: no other arm is "
            "shown to be better."
        ),
    )
    assert len(check.findings) == 4
    assert check.remarks[0].startswith("The choice was computed anew.")


def test_an_environment_that_was_changed_in_all_frozen_trials_alike(frozen, change):
    """Gates within a seed pass: all trials ran in the same place, and in another one."""
    change("UPDATE sweeper_attempt SET environment = replace(environment, 'cpu', 'gpu')")

    assert audit(frozen.file).checks[-1].findings == (
        "What the frozen trials ran in is on record otherwise than it was frozen.",
    )


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            ("UPDATE sweeper_attempt SET outcome = 'stopped', reason = 'diverged'"
            " WHERE cell = 'half/1'"),
            ("half/1, attempt 1: the record says stopped (diverged), the chain completed "
            "(budget_reached)."),
        ),
        (
            "UPDATE sweeper_attempt SET adapter_sha256 = 'b' WHERE cell = 'half/1'",
            ("half/1, attempt 1: the digest of its weights on record is not what the chain sealed "
            "when it ended."),
        ),
        (
            "DELETE FROM sweeper_update WHERE cell = 'half/1' AND window = 3",
            ("half/1, attempt 1: the number of its windows on record is not what the chain sealed "
            "when it ended."),
        ),
        (
            ("UPDATE sweeper_update SET target_tokens_applied = 20"
            " WHERE cell = 'half/1' AND window = 3"),
            ("half/1, attempt 1: the target tokens it applied on record are not what the chain "
            "sealed when it ended."),
        ),
        (
            "UPDATE sweeper_intervention SET detail = '{}'",
            "Intervention 1 (close) is not in the chain as it is on record.",
        ),
        (
            "DELETE FROM sweeper_intervention",
            "The chain has an intervention 1 (close) that is not on record.",
        ),
        (
            "UPDATE sweeper_study SET fingerprint = 'f'",
            "The study on record does not have the fingerprint that the chain has.",
        ),
        (
            "UPDATE sweeper_study SET protocol = '{\"selection\": {\"checkpoint\": \"last\"}}'",
            "The protocol on record does not have the study's fingerprint.",
        ),
        (
            "UPDATE study_user_attributes SET value_json = replace(value_json, 'half', 'double')",
            "What the Optuna study says of the choice is not what was frozen.",
        ),
    ],
    ids=[
        "outcome", "weights", "windows", "applied", "intervention", "no intervention",
        "fingerprint", "protocol", "optuna",
    ],
)  # fmt: skip
def test_a_changed_row_in_the_database(frozen, change, statement, found):
    change(statement)

    assert found in findings(frozen)


def test_data_that_are_not_what_was_prepared(frozen):
    file = frozen.folder.prepared / "train" / "token_ids.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\7")

    assert findings(frozen) == [
        "The split train is not what was prepared: its tokens or records were changed."
    ]


def test_a_manifest_with_another_test_split(frozen):
    file = frozen.folder.manifest
    file.write_text(file.read_text().replace("7" * 64, "8" * 64))

    assert findings(frozen) == [
        "The manifest is not the one that the chain has from the study's beginning."
    ]


def test_a_mirror_that_is_no_chain(frozen):
    frozen.folder.chain.write_text("nothing\n")

    (found,) = findings(frozen)
    assert "chain.jsonl, line 1: the mirror of the chain is damaged" in found


def test_before_anything_is_frozen_there_is_nothing_to_find_in_it(decided):
    *_, check = audit(decided.file).checks

    assert (check.about, check.looked_at) == ("The frozen choice", "nothing is frozen yet")
    assert check.is_sound


def test_while_the_study_runs_its_mirror_may_be_behind(founded_only):
    with founded_only.open() as store:
        store.claim(founded_only.living_owner(), "cpu:0")

        _, mirror, *_ = audit_of(store, founded_only.folder).checks

    assert mirror.is_sound
    assert mirror.remarks == ("It is 2 behind, for the study is being run.",)
