from __future__ import annotations

import os

import pytest

from sweeper.workers.messages import MessageReader, send


@pytest.fixture
def pipe():
    read, write = os.pipe()
    ends = {"read": read, "write": write}
    yield ends
    for descriptor in ends.values():
        os.close(descriptor)


def test_messages_come_out_as_they_went_in(pipe):
    reader = MessageReader(pipe["read"])

    send(pipe["write"], {"command": "kill"})
    send(pipe["write"], {"command": "stop", "grace_seconds": 0.1})

    assert reader.read(timeout_seconds=1.0) == [
        {"command": "kill"},
        {"command": "stop", "grace_seconds": 0.1},
    ]


def test_half_a_message_waits_for_its_other_half(pipe):
    reader = MessageReader(pipe["read"])
    os.write(pipe["write"], b'{"command":')
    assert reader.read(timeout_seconds=1.0) == []

    os.write(pipe["write"], b' "kill"}\n')

    assert reader.read(timeout_seconds=1.0) == [{"command": "kill"}]


def test_silence_is_not_taken_for_a_closed_pipe(pipe):
    reader = MessageReader(pipe["read"])

    assert reader.read(timeout_seconds=0.01) == []
    assert not reader.closed


def test_a_pipe_is_closed_once_everything_in_it_was_read(pipe):
    reader = MessageReader(pipe["read"])
    send(pipe["write"], {"command": "exit"})
    os.close(pipe.pop("write"))

    assert reader.read(timeout_seconds=1.0) == [{"command": "exit"}]
    assert not reader.closed
    assert reader.read(timeout_seconds=1.0) == []
    assert reader.closed


@pytest.mark.parametrize("text", [b"[]\n", b"nonsense\n"])
def test_a_line_that_is_no_message_is_refused(pipe, text):
    os.write(pipe["write"], text)

    with pytest.raises(ValueError, match=r"not a message|Expecting value"):
        MessageReader(pipe["read"]).read(timeout_seconds=1.0)


def test_a_reader_knows_that_nobody_is_at_the_other_end_before_it_has_read_all(pipe):
    reader = MessageReader(pipe["read"])
    send(pipe["write"], {"command": "kill"})
    assert not reader.hung_up

    os.close(pipe.pop("write"))

    assert reader.hung_up
    assert not reader.closed
    assert reader.read(timeout_seconds=1.0) == [{"command": "kill"}]
