"""Freezing the choice: what is frozen, what is refused, and that nothing changes afterwards."""

from __future__ import annotations

import dataclasses
import shutil
from functools import partial

import optuna
import pytest

from sweeper.errors import StudyConflict
from sweeper.records import Outcome, Reason
from sweeper.report.auditing import audit
from sweeper.report.comparison import evidence
from sweeper.report.recorded import recorded_settings, study_to_run
from sweeper.selection.chain import EntryKind, digest_of
from sweeper.selection.comparison import compare
from sweeper.selection.frozen import OPTUNA_ATTRIBUTE, Frozen, Role, Tables, tables_of
from sweeper.store.store import StudyStore
from sweeper.sweep.cleaning import clean
from sweeper.sweep.freezing import Wish, choice_of
from sweeper.sweep.freezing import freeze as carry_out
from sweeper.sweep.interventions import amend_limits, cancel_trial, close_study, retry_trial
from sweeper.sweep.observer import SilentObserver
from sweeper.training.folder_digest import folder_digest


def reader(study):
    settings = recorded_settings(study.folder)
    return partial(evidence, study=settings, folder=study.folder.path)


def freeze(study, **wish):
    return carry_out(
        study_to_run(study.file),
        study.folder,
        reader(study),
        wish=Wish(**wish),
        observer=SilentObserver(),
    )


def refusal(study, **wish):
    with pytest.raises(StudyConflict) as refused, study.open() as store:
        choice_of(store, study.folder, reader(study), wish=Wish(**wish))
    return str(refused.value)


def optuna_study(study):
    storage = optuna.storages.RDBStorage(study.folder.database_url)
    try:
        loaded = optuna.load_study(study_name="rates", storage=storage)
        return loaded.user_attrs, loaded.get_trials()
    finally:
        storage.remove_session()
        storage.engine.dispose()


@pytest.fixture
def tell(frozen):
    """Puts an entry on the chain, as opening does."""

    def append(kind, **facts):
        with frozen.open() as store:
            return store.chain.append(kind, facts)

    return append


def test_the_better_arm_is_frozen_with_the_weights_that_are_there(decided):
    done = freeze(decided)

    choice = done.choice
    assert (choice.arm, choice.number, choice.is_partial, choice.is_spent) == (
        "half", 1, False, False,
    )  # fmt: skip
    assert choice.sentence.startswith("half is chosen: better than baseline")
    assert choice.answer.startswith("Yes: half")
    places = [(each.role, each.arm, each.seed) for each in choice.checkpoints]
    assert places[:4] == [
        (Role.CHOSEN, "half", 0),
        (Role.BASELINE, "baseline", 0),
        (Role.INITIAL, None, 0),
        (Role.CHOSEN, "half", 1),
    ]
    assert len(places) == 15
    weights = decided.weights("half/0").parent
    assert choice.checkpoints[0].path == "trials/half-0/attempts/1/adapter"
    assert choice.checkpoints[0].sha256 == folder_digest(weights)


def test_the_untrained_model_is_known_by_what_the_trials_of_the_seed_began_with(decided):
    with decided.open() as store:
        choice = choice_of(store, decided.folder, reader(decided), wish=Wish())
        agreed = store.study().protocol

    (first, *others) = [each for each in choice.checkpoints if each.role is Role.INITIAL]
    assert agreed["model"]["content"] == "m" * 64
    assert first.sha256 == digest_of(
        {
            "model": agreed["model"],
            "adapter": agreed["lora"],
            "initial_tensors": "tensors of seed 0",
        }
    )
    assert len({first.sha256, *(each.sha256 for each in others)}) == 5


def test_it_is_on_record_and_closes_the_study(decided):
    done = freeze(decided)

    with decided.open() as store:
        assert store.frozen() == done.choice
        assert store.is_closed()
        assert store.chain.last().digest == done.digest
        assert evidence(store, recorded_settings(decided.folder)).closed


def test_the_optuna_study_says_so_too(decided):
    done = freeze(decided)

    attributes, _ = optuna_study(decided)
    assert attributes[OPTUNA_ATTRIBUTE] == done.choice.mirrored(done.digest)
    with decided.open() as store:
        assert store.chain.mirrored_choice() == attributes[OPTUNA_ATTRIBUTE]


def test_a_look_changes_nothing(decided):
    with StudyStore.read(decided.folder.database_url) as store:
        before = store.chain.links()
        choice = choice_of(store, decided.folder, reader(decided), wish=Wish())

        assert choice.arm == "half"
        assert store.chain.links() == before
        assert not store.is_closed()


def test_weights_that_were_changed_or_are_gone_are_all_named(decided):
    decided.weights("half/1").write_text("other weights")
    shutil.rmtree(decided.weights("baseline/3").parent)

    refused = refusal(decided)

    assert "half-1/attempts/1/adapter: the weights are not those that the trial left" in refused
    assert "baseline-3/attempts/1/adapter: weights are gone" in refused
    assert refused.count("adapter") == 2


@pytest.fixture
def all_but_one(founded_only):
    """Every trial but half/4 is completed."""
    for seed, loss in enumerate((1.602, 1.598, 1.611, 1.605, 1.594)):
        founded_only.complete(f"baseline/{seed}", loss)
    for seed, loss in enumerate((1.590, 1.589, 1.596, 1.597)):
        founded_only.complete(f"half/{seed}", loss)
    return founded_only


def test_open_trials_are_refused_unless_partial_and_with_a_reason(all_but_one):
    study = all_but_one
    assert refusal(study).startswith("half/4: trials have not been brought to an end")
    assert refusal(study, partial=True) == (
        "a choice without all trials needs a reason. Add --reason TEXT."
    )
    assert "half/4: trials" in refusal(study, reason="no machine")

    done = freeze(study, partial=True, reason="no machine")

    assert done.choice.is_partial
    assert done.choice.open_trials == ("half/4",)
    assert done.choice.reasons == ("no machine",)
    assert done.choice.arm == "baseline"
    with study.open() as store:
        cell = next(cell for cell in store.cells() if cell.cell == "half/4")
        assert (cell.outcome, cell.reason, cell.detail) == (
            "cancelled", "user_cancelled", "the choice was frozen: no machine",
        )  # fmt: skip
    _, trials = optuna_study(study)
    left = next(trial for trial in trials if trial.user_attrs["cell"] == "half/4")
    assert left.state is optuna.trial.TrialState.FAIL
    assert left.user_attrs["detail"] == "the choice was frozen: no machine"


@pytest.fixture
def left_open(all_but_one, recorded_studies):
    """The trial of all_but_one was interrupted after its first window, and a repeat waits."""
    facts, study = recorded_studies, all_but_one
    half, repeat = "half/4", facts.REPEAT
    with study.open() as store:
        store.add_cells([facts.PlannedCell(repeat, "baseline~repeat", 0, facts.RATES["baseline"])])
        claim = store.claim(facts.dead_owner(), "cpu:0", cell=half)
        facts.report(store, claim, facts.started(half), facts.evaluation(0), facts.update(1))
        store.finish(claim, INTERRUPTED, max_resumes=0)
        assert [str(cell.status) for cell in store.cells() if cell.cell in {half, repeat}] == [
            "waiting", "waiting",
        ]  # fmt: skip
    return study


INTERRUPTED = Outcome(reason=Reason.USER_CANCELLED, detail="Ctrl-C")


@pytest.mark.parametrize("reason", ["no machine", "a\0b"])
def test_what_a_partial_choice_rests_on_is_what_the_record_has_once_it_is_frozen(left_open, reason):
    with left_open.open() as store:
        looked_at = choice_of(
            store, left_open.folder, reader(left_open), wish=Wish(partial=True, reason=reason)
        )

    choice = freeze(left_open, partial=True, reason=reason).choice

    with left_open.open() as store:
        recorded = reader(left_open)(store)
        choice_on_record = store.frozen()
    found = compare(recorded)
    assert recorded.closed
    assert choice == looked_at
    assert choice.open_trials == ("half/4", "baseline/0~repeat")
    assert choice.tables == choice_on_record.tables == tables_of(recorded, found)
    assert (choice.arm, choice.sentence, choice.answer) == (
        found.choice.arm, found.choice.sentence, found.answer.sentence,
    )  # fmt: skip


def test_an_audit_of_a_partial_choice_finds_nothing_in_it(left_open):
    freeze(left_open, partial=True, reason="no machine")

    checks = {check.about: check for check in audit(left_open.file).checks}
    assert checks["The frozen choice"].looked_at == "baseline, with 5 checkpoints"
    assert checks["The frozen choice"].findings == ()


def test_a_trial_that_runs_is_not_left_out(all_but_one):
    with all_but_one.open() as store:
        store.claim(all_but_one.living_owner(), "cpu:0", cell="half/4")

    assert refusal(all_but_one, partial=True, reason="no machine") == (
        "half/4: trials still run; the choice is frozen without them once they do not. Wait for "
        "them, or end the run with Ctrl-C. Jobs of an engine that no run looks after are taken up "
        "by `sweeper run STUDY`."
    )


PARTIAL = (
    "`sweeper select STUDY --partial --reason TEXT` freezes without them: they count as missing "
    "then, for good."
)


def test_only_trials_that_a_run_would_go_on_with_are_said_to_go_on(all_but_one):
    assert refusal(all_but_one) == (
        "half/4: trials have not been brought to an end. `sweeper run STUDY` goes on with them. "
        + PARTIAL
    )
    with all_but_one.open() as store:
        store.cancel("half/4", "no need")

    assert refusal(all_but_one) == (
        "half/4: trials have not been brought to an end. `sweeper retry STUDY TRIAL` lets a "
        "cancelled one run again. " + PARTIAL
    )
    with all_but_one.open() as store:
        store.close_study("enough")

    assert refusal(all_but_one) == ("half/4: trials have not been brought to an end. " + PARTIAL)


def test_where_some_were_cancelled_those_that_wait_are_named(founded_only):
    for seed in range(4):
        founded_only.complete(f"baseline/{seed}", 1.6)
        founded_only.complete(f"half/{seed}", 1.5)
    with founded_only.open() as store:
        store.cancel("half/4", "no need")

    assert refusal(founded_only) == (
        "baseline/4, half/4: trials have not been brought to an end. `sweeper run STUDY` goes on "
        "with baseline/4. `sweeper retry STUDY TRIAL` lets a cancelled one run again. " + PARTIAL
    )


def test_a_partial_choice_is_frozen_again_for_a_reason_alone(all_but_one):
    freeze(all_but_one, partial=True, reason="no machine")

    assert refusal(all_but_one) == (
        "the choice is frozen already (got baseline). --reason TEXT freezes it again, which is "
        "counted and shown."
    )
    assert refusal(all_but_one, partial=True).startswith("the choice is frozen already")

    again = freeze(all_but_one, reason="a typo").choice

    assert (again.number, again.open_trials, again.reasons) == (
        2, ("half/4",), ("no machine", "a typo"),
    )  # fmt: skip


@pytest.mark.parametrize("wish", [{}, {"partial": True}, {"partial": True, "reason": "no machine"}])
def test_where_nothing_is_chosen_there_is_nothing_to_freeze(founded_only, wish):
    founded_only.stop("baseline/0")
    with founded_only.open() as store:
        store.close_not_run("baseline_failed: baseline/0 was stopped")

    assert refusal(founded_only, **wish) == (
        f"{founded_only.folder.path}: Nothing is chosen: baseline was stopped, and 9 of 10 trials "
        "were not brought to an end. There is nothing to freeze: `sweeper compare STUDY` says what "
        "the study shows."
    )


def test_where_nothing_is_chosen_and_trials_wait_they_are_gone_on_with(founded_only):
    founded_only.stop("baseline/0")

    assert refusal(founded_only, partial=True, reason="no machine") == (
        f"{founded_only.folder.path}: Nothing is chosen: baseline was stopped, and 9 of 10 trials "
        "were not brought to an end. `sweeper run STUDY` goes on with what is left."
    )


def test_freezing_again_needs_a_reason_and_is_counted(frozen):
    with frozen.open() as store:
        first = store.frozen()
    assert refusal(frozen).startswith("the choice is frozen already (got half)")

    second = freeze(frozen, reason="a typo")

    assert (second.choice.number, second.choice.reasons) == (2, ("a typo",))
    assert dataclasses.replace(second.choice, number=1, reasons=()) == first
    assert optuna_study(frozen)[0][OPTUNA_ATTRIBUTE]["number"] == 2
    with frozen.open() as store:
        assert store.frozen() == second.choice
        third = choice_of(store, frozen.folder, reader(frozen), wish=Wish(reason="another"))
    assert (third.number, third.reasons) == (3, ("a typo", "another"))


def test_while_the_test_split_is_being_opened_the_choice_stays(frozen, tell):
    tell(EntryKind.TEST_INTENT, frozen="d" * 64)

    refused = refusal(frozen, reason="a typo")

    assert "the test split is being opened for the frozen choice, which therefore stays" in refused


def test_after_a_test_result_another_choice_is_spent(frozen, tell):
    tell(EntryKind.TEST_INTENT, frozen="d" * 64)
    tell(EntryKind.TEST_RESULT, **RESULT)

    with frozen.open() as store:
        assert choice_of(store, frozen.folder, reader(frozen), wish=Wish(reason="typo")).is_spent


RESULT = {
    "opening": 1,
    "frozen": "d" * 64,
    "chosen": "half",
    "records_digest": "7" * 64,
    "records_read": 40,
    "records": 40,
    "target_tokens": 400,
    "set_digest": "s",
    "overlaps": [],
    "losses": [],
    "environment": {},
    "reason": None,
}


def test_on_a_chain_that_is_not_whole_nothing_is_frozen(decided):
    with decided.open() as store:
        store._database.write(
            lambda c: c.exec_driver_sql(
                "UPDATE sweeper_chain SET entry = replace(entry, 'half/0', 'half/9')"
                " WHERE number = 4"
            )
        )

    assert "the chain is not whole, and nothing is added to it: entry 4" in refusal(decided)


@pytest.mark.parametrize(
    "change",
    [
        lambda file, folder: retry_trial(file, folder, "half/0", observer=SilentObserver()),
        lambda file, folder: cancel_trial(file, folder, "half/0", observer=SilentObserver()),
        lambda file, folder: close_study(file, folder, observer=SilentObserver()),
        lambda file, folder: amend_limits(
            file, folder, {"wall_clock": "9h"}, observer=SilentObserver()
        ),
    ],
    ids=["retry", "cancel a trial", "close", "amend"],
)
def test_a_frozen_study_is_not_changed_any_more_and_the_way_on_is_named(frozen, change):
    with pytest.raises(StudyConflict, match=r"choice is frozen.*baseline: \{from: ") as refused:
        change(study_to_run(frozen.file), frozen.folder)

    assert str(frozen.folder.path) in str(refused.value)


@pytest.mark.slow
def test_a_frozen_study_does_not_run(study):
    """Nor does one run that had trials left when it was frozen."""
    study.behave({"half/0": ["killed", "killed"]})
    study.run()
    with StudyStore.open(study.url) as store:
        choice = Frozen(
            number=1,
            arm="baseline",
            sentence="baseline is kept.",
            answer="Not shown.",
            protocol=study.plan.fingerprint,
            tables=Tables(trials="1", arms="2", differences="3"),
            checkpoints=(),
            metric="loss",
            environment="e",
        )
        store.freeze(choice, "why")

    with pytest.raises(StudyConflict, match="nothing of the study runs"):
        study.run()


def test_cleaning_leaves_what_was_frozen(frozen):
    checkpoint = frozen.weights("half/0").parents[1] / "checkpoints" / "00000001"
    checkpoint.mkdir(parents=True)

    dropped = clean(study_to_run(frozen.file), frozen.folder, observer=SilentObserver())

    assert [each.path for each in dropped] == [checkpoint]
    with frozen.open() as store:
        kept = [each for each in store.frozen().checkpoints if each.path is not None]
    digests = [folder_digest(frozen.folder.path / each.path) for each in kept]
    assert digests == [each.sha256 for each in kept]
