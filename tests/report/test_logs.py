"""The log of an attempt, read while it is written."""

import os

import pytest

from sweeper.errors import NotFound
from sweeper.records import Outcome, Reason
from sweeper.report.logs import attempt_log, lines
from sweeper.store.store import StudyStore
from sweeper.study.storage import database_url


@pytest.fixture
def claimed(studies, tmp_path):
    """A study whose first cell is claimed by this process, with its log's folder."""
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        claim = store.claim(studies.living_owner(), "cpu:0")
        log = recorded.folder.path / claim.folder / "stderr.log"
        log.parent.mkdir(parents=True)
        yield recorded, store, claim, log


def test_the_latest_attempt_is_meant_unless_another_is_named(begun):
    latest = attempt_log(begun.file, "baseline/0")
    first = attempt_log(begun.file, "baseline/0", attempt=1)

    folder = begun.folder.path / "trials" / "baseline-0" / "attempts"
    assert (latest.attempt, latest.path) == (2, folder / "2" / "stderr.log")
    assert (first.attempt, first.path) == (1, folder / "1" / "stderr.log")


@pytest.mark.parametrize(
    ("trial", "attempt", "what"),
    [
        ("baseline/2", None, "has not begun"),
        ("baseline/0", 3, "it has no attempt 3"),
        ("baseline/0", 0, "it has no attempt 0"),
        ("base/0", None, "the study has no trial base/0"),
    ],
)
def test_what_does_not_exist_is_said(begun, trial, attempt, what):
    with pytest.raises(NotFound, match=what):
        attempt_log(begun.file, trial, attempt=attempt)


def test_a_log_on_another_host_s_disk_is_said_to_be_there(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.distant_owner(), "cpu:0")

    with pytest.raises(NotFound, match="on another host") as refusal:
        attempt_log(recorded.file, "baseline/0")

    assert refusal.value.faults[0].got == "far"


def test_without_a_log_there_is_no_text(claimed):
    recorded, *_ = claimed

    assert "".join(lines(attempt_log(recorded.file, "baseline/0"))) == ""


def test_what_a_terminal_would_obey_is_written_out(claimed):
    recorded, _, _, log = claimed
    log.write_bytes(b"10 %\r20 %\n\x1b[31mred\x00 \xc2\x9b2J\tcaf\xc3\xa9 \xff\n")

    assert "".join(lines(attempt_log(recorded.file, "baseline/0"))) == (
        "10 %\n20 %\n\\x1b[31mred\\x00 \\x9b2J\tcaf\xe9 \\xff\n"
    )


def test_a_character_on_the_edge_of_two_pieces_stays_whole(claimed):
    recorded, _, _, log = claimed
    text = "x" + "\xe9" * 70_000
    log.write_text(text, encoding="utf-8")

    assert "".join(lines(attempt_log(recorded.file, "baseline/0"))) == text


def test_following_goes_on_until_the_attempt_ends_and_leaves_nothing_out(claimed):
    recorded, store, claim, log = claimed
    log.write_text("one\n")
    looks = []

    def meanwhile(_seconds):
        looks.append(len(looks))
        with log.open("a") as file:
            file.write("more\n" if len(looks) == 1 else "last\n")
        if len(looks) == 2:
            done = Outcome(reason=Reason.KILLED, detail="", evidence={})
            store.finish(claim, done, max_resumes=1)

    found = list(lines(attempt_log(recorded.file, "baseline/0"), follow=True, pause=meanwhile))

    assert "".join(found) == "one\nmore\nlast\n"
    assert looks == [0, 1]


def test_an_attempt_whose_owner_is_gone_is_not_waited_for(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.dead_owner(), "cpu:0")

    assert "".join(lines(attempt_log(recorded.file, "baseline/0"), follow=True)) == ""


def test_a_log_that_appears_later_is_followed_too(claimed):
    recorded, store, claim, log = claimed

    def meanwhile(_seconds):
        log.write_text(f"process {os.getpid()}\n")
        done = Outcome(reason=Reason.KILLED, detail="", evidence={})
        store.finish(claim, done, max_resumes=1)

    found = lines(attempt_log(recorded.file, "baseline/0"), follow=True, pause=meanwhile)

    assert "".join(found) == f"process {os.getpid()}\n"


@pytest.fixture
def on_server(postgres, studies, tmp_path, monkeypatch):
    """The same as `claimed`, on a server, with what opens its store."""
    monkeypatch.setenv("STUDY_PASSWORD", postgres.PASSWORD)
    storage = f"postgresql+psycopg://{postgres.USER}:${{STUDY_PASSWORD}}@{postgres.place}"
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        study = store.study()
    recorded.folder.database.unlink()
    for file in (recorded.file, recorded.folder.recorded_study):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("max_resumes: 0", f'max_resumes: 0, storage: "{storage}"'))
    url = database_url(storage, recorded.folder, os.environ)
    with StudyStore.create(url) as store:
        store.record_study(study)
        store.add_cells([studies.PlannedCell("baseline/0", "baseline", 0, 0.0002)])
        claim = store.claim(studies.living_owner(), "cpu:0")
    log = recorded.folder.path / claim.folder / "stderr.log"
    log.parent.mkdir(parents=True)
    yield recorded, claim, log, lambda: StudyStore.open(url)
    with StudyStore.open(url) as store:
        store.delete()


@pytest.mark.costly
def test_following_goes_on_while_the_database_is_away(on_server, postgres):
    recorded, claim, log, opened = on_server
    log.write_text("begun\n")
    followed = attempt_log(recorded.file, "baseline/0")
    pauses = []

    def meanwhile(_seconds):
        pauses.append(_seconds)
        if len(pauses) == 1:
            log.write_text("begun\ngoes on\n")
            postgres.start()
        elif len(pauses) == 2:
            done = Outcome(reason=Reason.KILLED, detail="", evidence={})
            with opened() as store:
                store.finish(claim, done, max_resumes=1)

    postgres.stop()
    try:
        found = "".join(lines(followed, follow=True, pause=meanwhile))
    finally:
        if not pauses:
            postgres.start()

    assert found == "begun\ngoes on\n"
    assert len(pauses) == 2, "it ends with the attempt"
