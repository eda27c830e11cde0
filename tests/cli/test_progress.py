"""Lines about work that takes a while."""

import io
import sys

from sweeper.cli.progress import telling


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_off_a_terminal_one_line_follows_another_beside_the_result(capsys):
    with telling() as progress:
        progress("read [train]: 40")
        progress("tokenised train")

    assert capsys.readouterr() == ("", "read [train]: 40\ntokenised train\n")


def test_on_a_terminal_a_line_takes_the_place_of_the_one_before(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)

    with telling() as progress:
        progress("read [train]: 40")
        progress("tokenised train")

    assert "tokenised train" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "nothing of it is left behind"
