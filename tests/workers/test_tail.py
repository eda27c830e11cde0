from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sweeper.errors import EventsDamaged
from sweeper.records import Event, Notice, encode
from sweeper.workers.tail import EventTail

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def event(sequence):
    return Event(sequence=sequence, at=NOON, record=Notice(message=f"fact {sequence} \u00fc"))


def line(sequence):
    return encode(event(sequence)).encode("utf-8") + b"\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "events.jsonl"


def append(file, text):
    with file.open("ab") as stream:
        stream.write(text)


def test_a_file_that_is_not_there_yet_holds_nothing(file):
    assert EventTail(file).read() == ()


def test_each_event_is_returned_once(file):
    tail = EventTail(file)
    append(file, line(1) + line(2))
    assert tail.read() == (event(1), event(2))

    append(file, line(3))

    assert tail.read() == (event(3),)
    assert tail.read() == ()


@pytest.mark.parametrize("length", [1, 20, len(line(1)) - 1])
def test_half_a_line_waits_for_its_other_half(file, length):
    tail = EventTail(file)
    append(file, line(1)[:length])
    assert tail.read() == ()

    append(file, line(1)[length:])

    assert tail.read() == (event(1),)


def test_a_file_that_became_shorter_is_damaged(file):
    tail = EventTail(file)
    append(file, line(1) + line(2))
    tail.read()

    file.write_bytes(line(1))

    with pytest.raises(EventsDamaged, match="cut to"):
        tail.read()


def test_half_a_line_may_be_taken_back(file):
    """A trial takes back what did not fit on the disk; nobody has read it."""
    tail = EventTail(file)
    append(file, line(1) + line(2)[:5])
    tail.read()

    file.write_bytes(line(1))
    assert tail.read() == ()
    append(file, line(2))

    assert tail.read() == (event(2),)


def test_a_file_that_was_replaced_is_damaged(file, tmp_path):
    tail = EventTail(file)
    append(file, line(1))
    tail.read()

    other = tmp_path / "other"
    other.write_bytes(line(1) + line(2))
    other.rename(file)

    with pytest.raises(EventsDamaged, match="another file took its place"):
        tail.read()


def test_a_file_that_disappeared_is_damaged(file):
    tail = EventTail(file)
    append(file, line(1))
    tail.read()

    file.unlink()

    with pytest.raises(EventsDamaged, match="the file is gone"):
        tail.read()


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (line(3), "event 3 stands where event 2 belongs"),
        (line(1), "event 1 stands where event 2 belongs"),
        (b"\x00\x00\x00\n", "not an event line|Expecting value"),
        (b"\xff\n", "can't decode"),
    ],
)
def test_what_comes_before_the_damage_is_returned_and_then_the_damage_is_told(file, after, what):
    tail = EventTail(file)
    append(file, line(1) + after + line(2))

    assert tail.read() == (event(1),)
    with pytest.raises(EventsDamaged, match=what):
        tail.read()
    with pytest.raises(EventsDamaged, match=what):
        tail.read()
