"""Ctrl-C, once and twice."""

import os
import signal

import pytest

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
