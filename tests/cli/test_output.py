"""What reaches the terminal: as it is, on the right stream, in whatever encoding."""

import io
import json
import sys

import pytest

from sweeper.cli.output import (
    console,
    is_animated,
    name_next,
    never_fail_on_characters,
    options,
    print_json,
    tell,
    write,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_text_is_written_as_it_is(capsys):
    write("[bold]study.yaml:100: 💩 :smile: 1.5")

    assert capsys.readouterr() == ("[bold]study.yaml:100: 💩 :smile: 1.5\n", "")


def test_remarks_go_to_standard_error(capsys):
    tell("reading")

    assert capsys.readouterr() == ("", "reading\n")


def test_a_long_line_is_not_broken_off_a_terminal(capsys, narrow):
    write("word " * 100)

    assert capsys.readouterr().out.count("\n") == 1


def test_a_long_line_is_broken_between_words_on_a_terminal(terminal, monkeypatch, narrow):
    monkeypatch.setattr(sys, "stdout", terminal)

    write("twelve chars " * 10)

    assert [len(line) for line in terminal.getvalue().splitlines()] == [78, 52]


def test_the_next_command_can_be_copied_into_a_shell(capsys):
    name_next("show", "my study.yaml", "double/2", remark="goes on")

    assert capsys.readouterr().err == "Next: sweeper show 'my study.yaml' double/2   (goes on)\n"


def test_json_is_ascii_so_that_every_encoding_carries_it(capsys):
    print_json({"question": "größer? 💩"})

    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"question": "größer? 💩"}


def test_json_never_has_a_number_that_is_not_finite():
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json([float("nan")])


def test_characters_that_the_encoding_lacks_are_written_as_escapes(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    never_fail_on_characters()
    write("größer 💩")
    stream.flush()

    assert stream.buffer.getvalue() == b"gr\\xf6\\xdfer \\U0001f4a9\n"


def test_options_that_were_given_are_named_again():
    given = {"--yes": True, "--repeat": False, "--reason": "a typo", "--test": None}

    assert options(given) == ["--yes", "--reason", "a typo"]


def test_bold_text_is_plain_off_a_terminal(capsys):
    write("Answer", style="bold")

    assert capsys.readouterr().out == "Answer\n"


def test_no_color_leaves_no_colour(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    console(terminal).print("Answer", style="red")

    assert "[31m" not in terminal.getvalue()


def test_a_terminal_may_be_redrawn(terminal):
    assert is_animated(console(terminal))


def test_nothing_is_redrawn_off_a_terminal_whatever_is_forced(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")

    assert not is_animated(console(io.StringIO()))


def test_nothing_is_redrawn_on_a_terminal_that_cannot(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")

    assert not is_animated(console(terminal))
