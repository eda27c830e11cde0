"""The chain of the record: what happens is told in the transaction in which it does."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest
from sqlalchemy import create_engine, text

from sweeper.errors import StoreError, StudyConflict
from sweeper.records import Outcome, Reason
from sweeper.selection.chain import EntryKind, link_after, verify
from sweeper.selection.frozen import Frozen, Tables
from sweeper.store.store import StudyStore

LOST = Outcome(reason=Reason.KILLED, detail="killed", evidence={})
CHOICE = Frozen(
    number=1,
    arm="baseline",
    sentence="baseline is kept.",
    answer="No.",
    protocol="f" * 64,
    tables=Tables(trials="1", arms="2", differences="3"),
    checkpoints=(),
    metric="loss",
    environment="e",
)


ENVIRONMENT = r'{"environment":"{\"threads\":\"1\",\"torch\":\"2.13.0\"}"}'
FROM_THE_START = (
    '{"resume_checkpoint":"None","resume_differences":"None","resumed_after_window":"0",'
    '"resumed_from_attempt":"None"}'
)
OF_THE_START = ("initial_digest", "environment_sha256", "configuration_sha256", "resume_sha256")


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def told(store, kind=None):
    return [(link.kind, link.facts) for link in store.chain.links(kind)]


@pytest.fixture
def change(url):
    """Changes the database behind the store's back."""

    def run(statement):
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(statement))
        engine.dispose()

    return run


def test_it_begins_with_the_study_and_what_was_prepared_for_it(url, study):
    with StudyStore.create(url) as store:
        store.record_study(study, data={"test": {"records_digest": "7" * 64}})
        store.record_study(study, data={"test": None})

        assert told(store) == [
            (
                "study_created",
                {
                    "study": "rates",
                    "protocol": "f" * 64,
                    "data": {"test": {"records_digest": "7" * 64}},
                },
            )
        ]


@pytest.mark.every_database
def test_attempts_are_told_as_they_begin_and_end(
    store, owner, numbered, started, update, evaluation, artifact, completed
):
    store.finish(store.claim(owner, "cpu0"), LOST, max_resumes=3)
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, numbered(started, update(), evaluation(), artifact))
    store.finish(claim, completed, max_resumes=3)

    _, first, lost, second, ended = told(store)

    assert first == ("trial_started", {"trial": "baseline/0", "attempt": 1})
    assert (lost[1]["attempt"], lost[1]["outcome"], lost[1]["reason"]) == (1, "lost", "killed")
    assert second == ("trial_started", {"trial": "baseline/0", "attempt": 2})
    evaluations = ended[1].pop("evaluations_sha256")
    assert evaluations != lost[1]["evaluations_sha256"]
    assert ended == (
        "trial_ended",
        {
            "trial": "baseline/0",
            "attempt": 2,
            "outcome": "completed",
            "reason": "budget_reached",
            "weights_sha256": artifact.sha256,
            "best_sha256": None,
            "events": 4,
            "windows": 1,
            "target_tokens_read": 10,
            "target_tokens_applied": 10,
            "initial_digest": "a" * 64,
            "environment_sha256": sha256(ENVIRONMENT),
            "configuration_sha256": sha256('{"configuration":"{}"}'),
            "resume_sha256": sha256(FROM_THE_START),
        },
    )
    assert verify(store.chain.links()) == ()


def test_what_an_attempt_reports_after_its_end_is_not_what_was_sealed(
    store, owner, numbered, update, evaluation
):
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, numbered(update(), evaluation()))
    store.finish(claim, LOST, max_resumes=3)
    (sealed,) = (facts for _, facts in told(store, EntryKind.TRIAL_ENDED))

    store.ingest(claim, numbered(update(window=2), evaluation(index=1), first=3))

    assert store.chain.recorded_endings({("baseline/0", 1): 2}) == {("baseline/0", 1): sealed}
    assert store.chain.recorded_endings({}) != {("baseline/0", 1): sealed}


def test_a_start_that_was_reported_after_the_end_is_not_sealed(
    store, owner, numbered, started, update
):
    claim = store.claim(owner, "cpu0")
    store.finish(claim, LOST, max_resumes=3)
    (sealed,) = (facts for _, facts in told(store, EntryKind.TRIAL_ENDED))

    store.ingest(claim, numbered(started, update()))

    assert [sealed[name] for name in OF_THE_START] == [None] * 4
    assert store.chain.recorded_endings({("baseline/0", 1): 0}) == {("baseline/0", 1): sealed}


def test_what_an_attempt_went_on_from_is_sealed(store, owner, numbered, started, resumed, change):
    store.finish(store.claim(owner, "cpu0"), LOST, max_resumes=3)
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, numbered(started, resumed(1, attempt=1)))
    store.finish(claim, LOST, max_resumes=3)
    *_, (_, sealed) = told(store, EntryKind.TRIAL_ENDED)

    change("UPDATE sweeper_attempt SET resumed_after_window = 2 WHERE attempt = 2")

    now = store.chain.recorded_endings({})[("baseline/0", 2)]
    assert {name for name in sealed if sealed[name] != now[name]} == {"resume_sha256"}


def test_an_entry_of_an_earlier_version_is_not_told_again_with_what_that_did_not_seal(
    store, owner, numbered, started, update, study, cells, tmp_path
):
    events = numbered(started, update())
    claim = store.claim(owner, "cpu0")
    store.ingest(claim, events)
    store.finish(claim, LOST, max_resumes=3)
    links = before_the_start_was_sealed(store.chain.links())

    with StudyStore.create(f"sqlite:///{tmp_path / 'anew.db'}") as anew:
        anew.chain.restore(links)
        anew.record_study(study)
        anew.add_cells(cells)
        again = anew.claim(owner, "cpu0")
        anew.ingest(again, events)
        anew.finish(again, LOST, max_resumes=3)

        assert anew.chain.links() == links


def before_the_start_was_sealed(links):
    earlier = []
    for link in links:
        facts = {name: fact for name, fact in link.facts.items() if name not in OF_THE_START}
        last = earlier[-1] if earlier else None
        earlier.append(link_after(last, EntryKind(link.kind), facts, at=link.at))
    return tuple(earlier)


def test_a_result_that_counts_for_nothing_is_not_told(store, owner, completed):
    claim = store.claim(owner, "cpu0")
    store.finish(claim, LOST, max_resumes=3)

    store.finish(claim, completed, max_resumes=3)

    assert [facts["outcome"] for _, facts in told(store, EntryKind.TRIAL_ENDED)] == ["lost"]


def test_what_users_change_by_hand_is_told(store):
    store.cancel("double/0", "nobody needs it")

    assert told(store, EntryKind.NOTE) == [("note", store.chain.recorded_interventions()[1])]
    assert told(store, EntryKind.NOTE)[0][1] == {
        "intervention": 1,
        "what": "cancel",
        "trial": "double/0",
        "after_attempt": 0,
        "from_the_start": False,
        "detail": {"why": "nobody needs it"},
    }


def test_what_does_not_take_effect_is_not_told(store, owner, change):
    change(
        "CREATE TRIGGER full BEFORE INSERT ON sweeper_chain"
        " BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )

    with pytest.raises(StoreError, match="no room"):
        store.claim(owner, "cpu0")

    assert {cell.status for cell in store.cells()} == {"waiting"}
    assert [kind for kind, _ in told(store)] == ["study_created"]


@pytest.mark.every_database
def test_eight_processes_append_to_one_unbroken_chain(store, url, start_children, run_together):
    numbers = run_together(start_children(8, "append_entries.py", url))

    links = store.chain.links()
    assert sorted(map(int, numbers)) == list(range(2, 82))
    assert verify(links) == ()
    assert len({link.facts["process"] for link in links[1:]}) == 8


def test_numbers_that_are_not_finite_are_refused_and_text_that_no_database_takes_is_escaped(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.chain.append(EntryKind.NOTE, {"loss": float("nan")})

    link = store.chain.append(EntryKind.NOTE, {"reason": "a\0b\udce9"})

    assert json.loads(link.entry)["reason"] == "a\\x00b\\udce9"
    assert store.chain.last() == link


@pytest.mark.every_database
def test_the_choice_and_the_end_of_what_waits_are_one_change(store):
    link = store.freeze(CHOICE, "frozen without it")

    assert store.frozen() == CHOICE
    assert store.is_closed()
    assert {cell.detail for cell in store.cells()} == {"frozen without it"}
    assert store.chain.last(EntryKind.SELECTION_FROZEN) == link
    assert [kind for kind, _ in told(store)] == ["study_created", "note", "selection_frozen"]


def test_a_second_choice_closes_nothing_again_and_is_the_one_that_counts(store):
    store.freeze(CHOICE, "why")
    again = dataclasses.replace(CHOICE, number=2, reasons=("a typo",))

    store.freeze(again, "why")

    assert store.frozen() == again
    assert len(store.journal().entries) == 1


def test_a_trial_that_waits_although_the_study_is_closed_ends_with_the_choice(store, owner):
    """One that ran when it was closed, and was lost since."""
    claim = store.claim(owner, "cpu0")
    store.close_study("enough")
    store.finish(claim, LOST, max_resumes=3)
    assert str(store.cells()[0].status) == "waiting"

    store.freeze(CHOICE, "frozen without it")

    first, *others = store.cells()
    assert (first.reason, first.detail) == ("user_cancelled", "frozen without it")
    assert {cell.detail for cell in others} == {"enough"}


def test_who_did_not_know_of_a_choice_is_refused(store):
    store.freeze(CHOICE, "why")

    with pytest.raises(StudyConflict, match="somebody else has frozen"):
        store.freeze(CHOICE, "why")

    assert len(told(store, EntryKind.SELECTION_FROZEN)) == 1


def test_a_restored_chain_is_not_told_again_what_it_knows(store, owner, study, tmp_path):
    store.finish(store.claim(owner, "cpu0"), LOST, max_resumes=3)
    links = store.chain.links()

    with StudyStore.create(f"sqlite:///{tmp_path / 'anew.db'}") as anew:
        anew.chain.restore(links)
        anew.record_study(study)
        assert anew.chain.links() == links

        anew.add_cells([])
        anew.chain.append(EntryKind.NOTE, {"new": True})
        assert verify(anew.chain.links()) == ()
        assert len(anew.chain.links()) == len(links) + 1


def test_without_an_optuna_study_nothing_is_mirrored(store):
    assert store.chain.mirrored_choice() is None
