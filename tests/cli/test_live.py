"""The view of a running study: lines off a terminal, a table that fits 80 columns on it."""

import dataclasses
import io

import pytest
from rich.console import Console

from sweeper.cli.live import STOPPING, Lines, LiveView, watching
from sweeper.records import Outcome, Phase, Reason
from sweeper.sweep.observer import Progress
from sweeper.sweep.stop_request import StopRequest

HALF_WAY = Progress(
    slot="cpu 1",
    cell="double/2",
    phase=Phase.TRAINING,
    target_tokens_read=10000,
    budget_target_tokens=20000,
    loss=5.43211,
    learning_rate=0.00019374,
    seconds_left=247.4,
)
DIVERGED = Outcome(reason=Reason.DIVERGED, detail="7.52 against 5.51")


def at(read, **changes):
    return dataclasses.replace(HALF_WAY, target_tokens_read=read, **changes)


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def lines(stream):
    return Lines(stream)


@pytest.fixture
def stop():
    return StopRequest()


@pytest.fixture
def view(stream, stop):
    return LiveView(Console(file=stream, width=80, emoji=False, markup=False), stop)


@pytest.fixture
def seen(view):
    """What the view shows now, as lines."""

    def look():
        screen = Console(file=io.StringIO(), width=80, markup=False)
        screen.print(view.render())
        return [line.rstrip() for line in screen.file.getvalue().splitlines()]

    return look


def test_a_start_and_an_ending_are_a_line_each(lines, stream):
    lines.slot_started(slot="cpu 1", cell="double/2", attempt=1)
    lines.trial_ended(slot="cpu 1", cell="double/2", outcome=DIVERGED)

    assert stream.getvalue() == (
        "double/2 started on cpu 1\ndouble/2 stopped (diverged): 7.52 against 5.51\n"
    )


def test_a_second_attempt_is_called_one(lines, stream):
    lines.slot_started(slot="cpu 1", cell="double/2", attempt=2)

    assert stream.getvalue() == "double/2 started again (attempt 2) on cpu 1\n"


def test_progress_is_a_line_at_every_quarter_of_the_budget(lines, stream):
    for read in (0, 4999, 5000, 9999, 10000, 15001, 19999, 20000):
        lines.progress(at(read))

    assert [line.split()[1] for line in stream.getvalue().splitlines()] == [
        "5000/20000",
        "10000/20000",
        "15001/20000",
    ]


def test_a_line_of_progress_has_loss_rate_and_time_left(lines, stream):
    lines.progress(HALF_WAY)

    assert stream.getvalue() == (
        "double/2 10000/20000 target tokens, loss 5.4321, rate 0.000194, 4:07 left\n"
    )


def test_quarters_are_counted_anew_in_another_attempt(lines, stream):
    lines.progress(HALF_WAY)
    lines.slot_started(slot="cpu 1", cell="double/2", attempt=2)
    lines.progress(HALF_WAY)

    assert stream.getvalue().count("10000/20000") == 2


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


class Full(io.StringIO):
    """A stream on a full disk, or one whose reader is gone."""

    def flush(self):
        raise OSError(28, "No space left on device")


def test_a_stream_that_takes_no_more_ends_no_trial():
    stream = Full()

    Lines(stream).trial_ended(slot="cpu 1", cell="double/2", outcome=DIVERGED)

    assert "double/2 stopped" in stream.getvalue(), "it was tried"


def test_off_a_terminal_there_are_lines(stream, stop):
    with watching(stream, stop) as observer:
        observer.message("reading train.jsonl")

    assert stream.getvalue() == "reading train.jsonl\n"


def test_on_a_terminal_there_is_a_view_of_which_only_the_lines_above_stay(stop, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()

    with watching(terminal, stop) as observer:
        observer.slot_started(slot="cpu 1", cell="double/2", attempt=1)
        observer.message("reading [train].jsonl")

    assert isinstance(observer, LiveView)
    assert "reading [train].jsonl" in terminal.getvalue()
    assert "starting" in terminal.getvalue()
    assert "starting" not in terminal.getvalue().rpartition("\x1b[2K")[2]


def test_before_the_first_trial_the_view_says_that_it_works(seen):
    assert seen() == ["working"]


def test_a_slot_that_has_started_shows_its_trial(view, seen):
    view.slot_started(slot="cpu 1", cell="double/2", attempt=1)

    assert [line.split() for line in seen()] == [
        ["slot", "trial", "target", "tokens", "loss", "rate", "left", "doing"],
        ["cpu", "1", "double/2", "starting"],
    ]


def test_a_row_shows_tokens_of_the_budget_loss_rate_time_left_and_what_it_does(view, seen):
    view.slot_started(slot="cpu 1", cell="double/2", attempt=1)
    view.progress(HALF_WAY)

    row = seen()[1]
    assert len(row) <= 80
    assert row.startswith("cpu 1  double/2  ")
    assert row.split()[-5:] == ["10000/20000", "5.4321", "0.000194", "4:07", "training"]


def test_the_longest_row_still_shows_every_number_in_80_columns(view, seen):
    progress = at(
        123456,
        slot="cpu 12",
        cell="baseline/12",
        budget_target_tokens=200000,
        learning_rate=1.9374e-05,
        seconds_left=86399.0,
        phase=Phase.EVALUATING,
    )
    view.slot_started(slot="cpu 12", cell="baseline/12", attempt=1)
    view.progress(progress)

    assert seen()[1].split()[-5:-1] == ["123456/200000", "5.4321", "1.94e-05", "23:59:59"]


def test_a_second_attempt_is_said_above(view, seen, stream):
    view.slot_started(slot="cpu 1", cell="double/2", attempt=2)

    assert stream.getvalue() == "double/2 started again (attempt 2) on cpu 1\n"
    assert seen()[1].split() == ["cpu", "1", "double/2", "starting"]


def test_what_a_trial_does_not_know_yet_is_a_dash(view, seen):
    loading = at(0, phase=Phase.LOADING, loss=None, learning_rate=None, seconds_left=None)
    view.slot_started(slot="cpu 1", cell="double/2", attempt=1)
    view.progress(loading)

    assert seen()[1].split()[-5:] == ["0/20000", "-", "-", "-", "loading"]


def test_slots_stand_in_the_order_of_their_names(view, seen):
    for slot, cell in (("cpu 2", "half/0"), ("cpu 1", "double/0")):
        view.slot_started(slot=slot, cell=cell, attempt=1)
        view.progress(dataclasses.replace(HALF_WAY, slot=slot, cell=cell))

    assert [row[:5] for row in seen()[1:]] == ["cpu 1", "cpu 2"]


def test_an_ending_frees_the_row_and_is_said_above(view, seen, stream):
    view.slot_started(slot="cpu 1", cell="double/2", attempt=1)
    view.progress(HALF_WAY)
    view.trial_ended(slot="cpu 1", cell="double/2", outcome=DIVERGED)

    assert seen() == ["working"]
    assert stream.getvalue() == "double/2 stopped (diverged): 7.52 against 5.51\n"


def test_the_next_trial_of_a_slot_does_not_inherit_the_numbers(view, seen):
    view.slot_started(slot="cpu 1", cell="double/2", attempt=1)
    view.progress(HALF_WAY)
    view.trial_ended(slot="cpu 1", cell="double/2", outcome=DIVERGED)
    view.slot_started(slot="cpu 1", cell="half/2", attempt=1)

    assert seen()[1].split() == ["cpu", "1", "half/2", "starting"]


def test_a_wish_to_stop_is_confirmed_at_once(view, seen, stop):
    view.slot_started(slot="cpu 1", cell="double/2", attempt=1)

    stop.ask()

    assert seen()[-1] == STOPPING
