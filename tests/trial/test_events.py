from __future__ import annotations

import errno
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from sweeper.errors import RunFolderError
from sweeper.records import Event, Notice, Phase, PhaseBegun, decode
from sweeper.trial.events import EventLog

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def test_facts_are_numbered_from_1_and_dated_by_the_clock(tmp_path):
    file = tmp_path / "events.jsonl"
    log = EventLog(file, now=lambda: NOON)

    log.emit(Notice(message="one"))
    log.emit(Notice(message="two"))
    log.close()

    assert [decode(line) for line in file.read_text("utf-8").splitlines()] == [
        Event(sequence=1, at=NOON, record=Notice(message="one")),
        Event(sequence=2, at=NOON, record=Notice(message="two")),
    ]


def test_what_leads_to_a_checkpoint_is_on_the_disk_before_it_is_made(tmp_path, monkeypatch):
    """After a crash of the host a trial goes on from it, and its history must have no hole."""
    file = tmp_path / "events.jsonl"
    durable = []
    monkeypatch.setattr("os.fsync", lambda descriptor: durable.append(file.read_text("utf-8")))
    log = EventLog(file, now=lambda: NOON)

    log.emit(Notice(message="one"))
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    assert durable == []
    log.emit(PhaseBegun(phase=Phase.CHECKPOINTING))

    assert durable == [file.read_text("utf-8")]
    log.close()


def test_a_fact_can_be_read_as_soon_as_it_was_told(tmp_path):
    file = tmp_path / "events.jsonl"
    log = EventLog(file)

    log.emit(Notice(message="one"))

    assert file.read_bytes().endswith(b"\n")
    log.close()


def test_a_file_with_something_in_it_is_refused(tmp_path):
    file = tmp_path / "events.jsonl"
    file.write_text("x", encoding="utf-8")

    with pytest.raises(RunFolderError, match="this attempt has run before"):
        EventLog(file)


def test_an_empty_file_is_taken(tmp_path):
    file = tmp_path / "events.jsonl"
    file.touch()

    EventLog(file).close()

    assert file.read_bytes() == b""


FULL = f"""
import resource, signal, sys
from pathlib import Path
from sweeper.records import Notice
from sweeper.trial.events import EventLog

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = EventLog(Path(sys.argv[1]))
log.emit(Notice(message="fits"))
size = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
try:
    log.emit(Notice(message="does not fit"))
except OSError as error:
    assert error.errno == {errno.EFBIG}
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.emit(Notice(message="fits again"))
log.close()
"""


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_half_behind(tmp_path):
    """A limit on the file's size stands in for a full disk: the line is written in part."""
    file = tmp_path / "events.jsonl"

    subprocess.run([sys.executable, "-c", FULL, str(file)], check=True)

    events = [decode(line) for line in file.read_text("utf-8").splitlines()]
    assert [(event.sequence, event.record.message) for event in events] == [
        (1, "fits"),
        (2, "fits again"),
    ]
