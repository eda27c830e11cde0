"""A lost database made anew from the run folder: equal to the lost one, or a clear refusal."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path

import optuna
import pytest
import sqlalchemy

from sweeper.cli.main import main
from sweeper.errors import NotFound, RunFolderError, StudyConflict
from sweeper.records import Outcome, Reason
from sweeper.selection.chain import verify
from sweeper.store.condition import Condition
from sweeper.store.endings import Cost
from sweeper.store.store import StudyStore
from sweeper.store.tables import CELL, METADATA
from sweeper.study.chain_file import read_chain_file
from sweeper.study.folder import StudyFolder
from sweeper.sweep import rebuilding
from sweeper.sweep.finishing import record_verdict
from sweeper.sweep.interventions import amend_limits, cancel_trial, close_study, retry_trial
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.rebuilding import rebuild, rebuild_plan
from sweeper.sweep.verdicts import Verdict, now, read_claim
from sweeper.trial.folder import AttemptFolder

pytestmark = pytest.mark.slow  # real studies, though of trials without torch

CLOCKS = frozenset(
    {"at", "created_at", "claimed_at", "lease_expires_at", "ended_at", "recorded_at", "token"}
)
"""Columns that may differ: by whose clock, and by which call, something came to be."""


def everything(url):
    """All rows of all our tables, without what clocks say."""
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            return {
                table.name: sorted(
                    [_timeless(row) for row in connection.execute(compared(table)).mappings()],
                    key=repr,
                )
                for table in METADATA.sorted_tables
                if table.name not in NOT_OF_THE_STUDY
            }
    finally:
        engine.dispose()


def compared(table):
    """The next owner of a cell has another fencing number than it would have had."""
    return sqlalchemy.select(*(column for column in table.c if column is not CELL.c.fencing_number))


NOT_OF_THE_STUDY = frozenset({"sweeper_slot", "sweeper_receipt"})
"""Tables about who is at work at the moment."""


def _timeless(row):
    return {name: value for name, value in row.items() if name not in CLOCKS}


def views(url):
    with StudyStore.read(url) as store:
        tables = [store.trials(), store.updates(), store.evaluations(), store.attempts()]
    return [[_timeless(row) for row in rows] for rows in tables]


def mirrored(url):
    """Every Optuna trial, without its times."""
    storage = optuna.storages.RDBStorage(url)
    try:
        trials = optuna.load_study(study_name="small", storage=storage).get_trials()
    finally:
        storage.remove_session()
        storage.engine.dispose()
    return [
        (t.number, t.state, t.values, t.params, t.distributions, t.user_attrs,
         t.intermediate_values, t.system_attrs)
        for t in trials
    ]  # fmt: skip


def record(study):
    return everything(study.url), views(study.url), mirrored(study.url)


def lose(study):
    for file in study.folder.path.glob("study.db*"):
        file.unlink()


def attempt_of(study, arm, number):
    return AttemptFolder(study.folder.attempt(arm=arm, seed=0, number=number))


def silent(study, *, replace=False):
    return rebuild(study.folder, replace=replace, observer=SilentObserver())


LIMITS = "max_resumes: 1, limits: {wall_clock: 1h}"
ARMS = "{half: 0.5, baseline: 1, double: 2, triple: 3, fourfold: 4}"


def eventful_study(small, place, **settings):
    """Half resumed, a late result of it; double retried, triple amended; fourfold cancelled."""
    study = small(place, arms=ARMS, **settings)
    study.file.path.write_text(study.file.path.read_text().replace("max_resumes: 1", LIMITS))
    study = small(place, **settings)
    study.behave(
        {
            "half/0": ["killed_after_a_checkpoint", "complete"],
            "double/0": ["late_error", "complete"],
            "triple/0": ["limited", "complete"],
            "fourfold/0": ["killed", "killed", "complete"],
        }
    )
    study.run()
    hands = {"observer": SilentObserver()}
    retry_trial(study.file, study.folder, "double/0", **hands)
    amend_limits(study.file, study.folder, {"wall_clock": "2h"}, **hands)
    retry_trial(study.file, study.folder, "fourfold/0", **hands)
    cancel_trial(study.file, study.folder, "fourfold/0", **hands)
    study.run()
    come_late(study)
    return study


def come_late(study):
    """The first coordinator of half/0 was frozen, and now says how its attempt ended."""
    folder = attempt_of(study, "half", 1)
    outcome = Outcome(reason=Reason.BUDGET_REACHED, detail="read it all", evidence={"x": "1"})
    claim = read_claim(folder).claim
    late = Verdict(claim=claim, outcome=outcome, cost=Cost(wall_seconds=1.5), at=now())
    with StudyStore.open(study.url) as store:
        record_verdict(store, folder, late)


def copied(small, template, place):
    """The same study in a folder of this test's own, so that it need not be run again."""
    shutil.copytree(template.place, place, dirs_exist_ok=True)
    return small(place)


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Returns the finished study of that name, run once."""
    made = {}

    def template(small, name):
        if name not in made:
            study = small(tmp_path_factory.mktemp(name))
            study.behave(BEHAVIOURS[name])
            study.run()
            if name == "retried":
                retry_trial(study.file, study.folder, "half/0", observer=SilentObserver())
                study.run()
            made[name] = study
        return made[name]

    return template


BEHAVIOURS = {
    "finished": {},
    "failed": {"half/0": ["late_error", "complete"]},
    "retried": {"half/0": ["late_error", "complete"]},
}


@pytest.fixture
def finished(small, templates, tmp_path):
    """Two trials, both complete."""
    return copied(small, templates(small, "finished"), tmp_path)


@pytest.fixture
def failed(small, templates, tmp_path):
    """Half has failed."""
    return copied(small, templates(small, "failed"), tmp_path)


@pytest.fixture
def retried(small, templates, tmp_path):
    """Half has failed, was retried, and completed; the database is lost."""
    study = copied(small, templates(small, "retried"), tmp_path)
    lose(study)
    return study


@pytest.fixture
def refusal(retried):
    """Asks for the text of the refusal."""

    def ask(kind):
        with pytest.raises(kind) as caught:
            silent(retried)
        assert not retried.folder.database.exists()
        return str(caught.value)

    return ask


def test_a_rebuilt_database_equals_the_lost_one_and_the_study_goes_on(small, tmp_path):
    eventful = eventful_study(small, tmp_path)
    before = record(eventful)
    lose(eventful)

    done = silent(eventful)

    assert record(eventful) == before
    assert (done.condition, done.aside) == (Condition.ABSENT, None)
    assert (len(done.attempts), done.interventions) == (9, 5)
    assert eventful.run().did_nothing
    retry_trial(eventful.file, eventful.folder, "fourfold/0", observer=SilentObserver())
    assert eventful.run().counts == {"completed": 5}


def test_on_a_server_it_is_the_same(small, tmp_path, on_server, postgres, schemas):
    study = eventful_study(small, tmp_path, storage=on_server)
    before = record(study)
    postgres.execute('DROP TABLE "sweeper_small".sweeper_update CASCADE')

    done = silent(study)

    assert record(study) == before
    assert (done.condition, done.aside) == (Condition.BROKEN, "schema sweeper_small~aside-1")
    with pytest.raises(StudyConflict, match="is whole, and is not replaced"):
        silent(study)
    assert schemas() == ["sweeper_small", "sweeper_small~aside-1"]
    assert study.run().did_nothing


def test_a_closed_study_stays_closed(small, tmp_path):
    study = small(tmp_path, arms="{half: 0.5, baseline: 1, double: 2}")
    study.behave({"baseline/0": ["stop"], "double/0": ["complete"]})
    study.run()
    close_study(study.file, study.folder, observer=SilentObserver())
    before = record(study)
    lose(study)

    silent(study)

    assert record(study) == before


def test_a_damaged_file_is_moved_aside_with_its_sidecars(finished):
    before = record(finished)
    finished.folder.database.write_bytes(b"no database any more")
    finished.folder.database.with_name("study.db-wal").write_bytes(b"left")

    done = silent(finished)

    aside = finished.folder.path / "study.db.aside-1"
    assert (done.condition, done.aside) == (Condition.BROKEN, str(aside))
    assert sorted(file.name for file in aside.iterdir()) == ["study.db", "study.db-wal"]
    assert (aside / "study.db").read_bytes() == b"no database any more"
    assert record(finished) == before


def test_a_whole_database_is_replaced_on_request_only(finished):

    with pytest.raises(StudyConflict, match=r"is whole.*--replace"):
        silent(finished)

    assert silent(finished, replace=True).aside == str(finished.folder.path / "study.db.aside-1")


class Killed(BaseException):
    pass


def die(*_arguments, **_options):
    raise Killed


def test_what_was_killed_while_it_was_built_is_done_again(finished, monkeypatch):
    before = record(finished)
    with monkeypatch.context() as patched:
        patched.setattr(rebuilding.Restoring, "the_end", die)
        with pytest.raises(Killed):
            silent(finished, replace=True)
    assert record(finished) == before

    silent(finished, replace=True)

    assert record(finished) == before
    assert not list(finished.folder.path.glob("*~rebuilt*"))


def test_what_was_killed_before_the_new_file_was_put_in_place_is_done_again(finished, monkeypatch):
    before = record(finished)
    rename = Path.replace
    with monkeypatch.context() as patched:
        patched.setattr(
            Path, "replace", lambda self, to: (die if "~" in self.name else rename)(self, to)
        )
        with pytest.raises(Killed):
            silent(finished, replace=True)
    assert not finished.folder.database.exists()

    silent(finished)

    assert record(finished) == before


def test_an_attempt_that_nobody_judged_is_judged_from_its_folder(finished, recorder):
    before = views(finished.url)[0]
    attempt_of(finished, "half", 1).verdict.unlink()
    lose(finished)
    watching = recorder()

    rebuild(finished.folder, replace=False, observer=watching)

    assert views(finished.url)[0] == before
    assert any("half/0: attempt 1" in told for told in watching.messages)
    assert attempt_of(finished, "half", 1).verdict.exists()


def test_the_attempts_of_a_killed_coordinator_are_adopted(study, coordinator, trials):
    study.behave({"baseline/0": ["slow", "complete"]})
    process = coordinator(study)
    events = attempt_of(study, "baseline", 1).events
    while not events.exists() or b'"update"' not in events.read_bytes():
        assert process.poll() is None, process.communicate()
    process.kill()
    process.wait()
    lose(study)

    silent(study)

    assert trials(study)["baseline/0"]["status"] == "waiting"
    assert study.run().counts == {"completed": 2}
    assert trials(study)["baseline/0"]["attempts"] == 2


def test_a_complete_attempt_whose_events_were_cut_is_no_result(finished, recorder, trials):
    lose(finished)
    events = attempt_of(finished, "half", 1).events
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:5]))
    watching = recorder()

    rebuild(finished.folder, replace=False, observer=watching)

    row = trials(finished)["half/0"]
    assert (row["outcome"], row["reason"]) == ("failed", "result_missing")
    cut = r"half/0, attempt 1: events.jsonl holds 5 events, 10 were on record: it was cut"
    assert cut in watching.messages
    assert any("is no result any more" in told for told in watching.messages)


def test_each_thing_that_does_not_fit_is_one_line_of_its_own(retried, refusal):
    spec = attempt_of(retried, "baseline", 1).spec
    spec.write_text(json.dumps(json.loads(spec.read_text()) | {"fingerprint": "0" * 64}))
    attempt_of(retried, "half", 1).verdict.write_text("{")
    attempt_of(retried, "half", 2).spec.unlink()
    attempt_of(retried, "half", 2).verdict.unlink()
    (retried.folder.trials / "stranger-0").mkdir()

    lines = refusal(StudyConflict).splitlines()

    assert len(lines) == 4
    assert "the plan has no such trial" in lines[0]
    assert "the attempt is of another study" in lines[1]
    assert "verdict.json: cut, or not written by sweeper" in lines[2]
    assert "spec.json is missing" in lines[3]


def test_an_attempt_that_is_gone_is_told(retried, refusal):
    shutil.rmtree(attempt_of(retried, "half", 1).path)

    assert "attempt 1 of half/0 is gone, though a later one is there" in refusal(StudyConflict)


def test_a_missing_journal_is_told_and_nothing_guessed(retried, refusal):
    retried.folder.journal.unlink()

    told = refusal(RunFolderError)

    assert "half/0, attempt 2 followed an end after which there is no other attempt" in told


@pytest.mark.parametrize("line", ["{}", "no json", '{"record": "intervention", "number": 7}'])
def test_a_damaged_journal_is_told(retried, refusal, line):
    with retried.folder.journal.open("a") as journal:
        journal.write(f"{line}\n")

    assert "the journal is damaged" in refusal(RunFolderError)


def test_a_line_of_the_journal_that_was_never_finished_counts_for_nothing(retried, trials):
    with retried.folder.journal.open("a") as journal:
        journal.write('{"record": "interv')

    silent(retried)

    assert trials(retried)["half/0"]["outcome"] == "completed"


@pytest.mark.parametrize("name", ["plan", "recorded_study"])
def test_without_plan_or_study_nothing_can_be_made(retried, refusal, name):
    getattr(retried.folder, name).unlink()

    refusal((RunFolderError, NotFound))


def test_a_plan_that_was_edited_is_refused(retried, refusal):
    plan = json.loads(retried.folder.plan.read_text())
    plan["protocol"]["training"]["learning_rate"] = 0.1
    retried.folder.plan.write_text(json.dumps(plan))

    assert "does not have the plan's fingerprint" in refusal(RunFolderError)


def test_a_dry_run_changes_nothing(retried):
    before = sorted(retried.folder.path.rglob("*"))

    planned = rebuild_plan(retried.folder)

    assert sorted(retried.folder.path.rglob("*")) == before
    told = [(a.trial, a.attempt, a.outcome, a.reason) for a in planned.attempts]
    assert told == [
        ("baseline/0", 1, "completed", "budget_reached"),
        ("half/0", 1, "failed", "code_error"),
        ("half/0", 2, "completed", "budget_reached"),
    ]
    assert planned.interventions == 1


def test_the_command_says_what_it_would_do_then_what_it_did(retried, capsys):
    with contextlib.suppress(SystemExit):
        main(["rebuild", str(retried.folder.path), "--dry-run"])
    planned = capsys.readouterr()
    with contextlib.suppress(SystemExit):
        main(["rebuild", str(retried.folder.path)])
    done = capsys.readouterr()

    assert "Would restore 3 attempts; changes by hand: 1." in planned.out
    assert f"{retried.folder.database}: there is none." in planned.err
    assert re.search(r"half/0 +2 +completed +budget_reached +10 +-", planned.out)
    assert f"The database was made anew: {retried.folder.database}" in done.out
    assert "Next: sweeper status" in done.err


def test_a_lost_database_is_refused_with_the_way_out(retried):

    with pytest.raises(StudyConflict, match=r"`sweeper rebuild .*runs/small` makes it anew"):
        retried.run()


def test_an_older_copy_of_the_database_is_found_out(failed):
    copy = failed.folder.database.read_bytes()
    retry_trial(failed.file, failed.folder, "half/0", observer=SilentObserver())
    lose(failed)
    failed.folder.database.write_bytes(copy)

    with pytest.raises(StudyConflict, match=r"an older copy: `sweeper rebuild .* --replace`"):
        failed.run()

    silent(failed, replace=True)
    assert failed.run().counts == {"completed": 2}


def test_a_folder_without_a_study_is_named(tmp_path):
    with pytest.raises(NotFound, match="no study has begun in this folder"):
        rebuild_plan(StudyFolder(tmp_path))


def test_a_coordinator_writes_what_another_one_could_not(failed):
    """The disk was full when it wanted to leave its verdict, say."""
    verdict = attempt_of(failed, "half", 1).verdict
    before = verdict.read_text()
    verdict.unlink()
    failed.folder.journal.unlink()

    failed.run()

    written = json.loads(verdict.read_text())
    assert written["outcome"] == json.loads(before)["outcome"]
    assert json.loads(failed.folder.journal.read_text())["ended_why"] == "every cell has ended"


def test_the_chain_comes_back_from_its_mirror_which_has_to_be_whole(study):
    study.run()
    with StudyStore.read(study.url) as store:
        links = store.chain.links()
    lose(study)
    lines = study.folder.chain.read_text()
    study.folder.chain.write_text(lines.replace("completed", "stopped", 1))

    with pytest.raises(RunFolderError, match=r"mirror of the chain is not whole: entry \d+ \(tri"):
        silent(study)

    study.folder.chain.write_text(lines)
    silent(study)
    with StudyStore.read(study.url) as store:
        assert store.chain.links() == links


def test_without_its_mirror_the_chain_begins_anew_and_that_is_told(study, recorder):
    study.run()
    with StudyStore.read(study.url) as store:
        told = [link.facts for link in store.chain.links()]
    lose(study)
    study.folder.chain.unlink()
    watching = recorder()

    rebuild(study.folder, replace=False, observer=watching)

    assert "the chain has no mirror in the run folder: it begins anew" in watching.messages
    with StudyStore.read(study.url) as store:
        links = store.chain.links()
    assert verify(links) == ()
    assert [link.facts for link in links] == told
    assert read_chain_file(study.folder.chain) == links


def test_what_the_mirror_had_not_been_told_is_told_when_the_record_is_made_anew(study):
    """As after a coordinator that was killed before it wrote on, with its database."""
    study.run()
    with StudyStore.read(study.url) as store:
        links = store.chain.links()
    lose(study)
    lines = study.folder.chain.read_text().splitlines(keepends=True)
    study.folder.chain.write_text("".join(lines[:-2]))

    silent(study)

    with StudyStore.read(study.url) as store:
        anew = store.chain.links()
    assert anew[:-2] == links[:-2]
    assert [link.facts for link in anew] == [link.facts for link in links]
    assert verify(anew) == ()
