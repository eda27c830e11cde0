"""Ctrl-C, once and twice; a closed terminal; a deadline."""

import os
import signal

import pytest

from sweeper.records import Reason
from sweeper.sweep.stop_request import StopRequest, listening


def test_nothing_is_asked_at_first():
    stop = StopRequest()

    assert (stop.is_asked, stop.is_urgent) == (False, False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_asks_and_a_second_one_urges(number):
    with listening(StopRequest()) as stop:
        os.kill(os.getpid(), number)
        assert (stop.is_asked, stop.is_urgent) == (True, False)
        os.kill(os.getpid(), number)
        assert (stop.is_asked, stop.is_urgent) == (True, True)


def test_the_handlers_of_before_come_back():
    before = signal.getsignal(signal.SIGINT)

    with listening(StopRequest()):
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


def test_a_hang_up_asks_and_never_urges():
    hung_up = []
    with listening(StopRequest(), on_hang_up=lambda: hung_up.append(True)) as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert (stop.is_asked, stop.is_urgent) == (True, False)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_urgent
    assert hung_up == [True, True]


def test_a_hang_up_that_was_ignored_still_is():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening(StopRequest()) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.is_asked
    finally:
        signal.signal(signal.SIGHUP, before)


class Clock:
    """Seconds that the test sets."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("seconds", "passed", "is_late"), [(5.0, 4.9, False), (5.0, 5.0, True), (-1.0, 0.0, True)]
)
def test_a_deadline_asks_once_it_is_reached(seconds, passed, is_late):
    clock = Clock()
    stop = StopRequest(clock)
    stop.stop_in(seconds)
    clock.now += passed

    assert (stop.is_asked, stop.is_late, stop.is_urgent) == (is_late, is_late, False)
    assert stop.reason is (Reason.DEADLINE if is_late else None)


def test_after_the_deadline_the_user_s_first_request_is_not_urgent_yet():
    stop = StopRequest()
    stop.stop_in(0)
    stop.ask()

    assert (stop.is_urgent, stop.reason) == (False, Reason.USER_CANCELLED)
