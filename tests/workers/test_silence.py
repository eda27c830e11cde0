from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sweeper.records import Event, Notice, Phase, PhaseBegun, encode
from sweeper.workers.silence import Silence

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def line(record):
    return encode(Event(sequence=1, at=NOON, record=record)).encode("utf-8") + b"\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "events.jsonl"


def append(file, text):
    with file.open("ab") as stream:
        stream.write(text)


def test_silence_lasts_from_the_start_until_the_file_grows(file):
    silence = Silence(file, now=100.0)
    assert silence.seconds(103.0) == 3.0

    append(file, b"a line that is no event\n")

    assert silence.seconds(105.0) == 0.0
    assert silence.seconds(107.5) == 2.5


def test_a_trial_that_said_nothing_is_loading(file):
    assert Silence(file, now=0.0).phase is Phase.LOADING


def test_the_phase_is_the_last_one_that_began(file):
    silence = Silence(file, now=0.0)
    append(file, line(PhaseBegun(phase=Phase.EVALUATING)) + line(PhaseBegun(phase=Phase.TRAINING)))
    append(file, line(Notice(message='"phase"')))

    silence.seconds(1.0)

    assert silence.phase is Phase.TRAINING


def test_a_phase_that_is_still_being_written_counts_once_it_is_whole(file):
    silence = Silence(file, now=0.0)
    whole = line(PhaseBegun(phase=Phase.SAVING))
    append(file, whole[:30])
    silence.seconds(1.0)
    assert silence.phase is Phase.LOADING

    append(file, whole[30:])
    silence.seconds(2.0)

    assert silence.phase is Phase.SAVING
