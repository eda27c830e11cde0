"""The real command in a process of its own: pipes that close, encodings that lack characters."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.costly


def command(*arguments):
    return [sys.executable, "-m", "sweeper", *arguments]


def run(folder, *arguments, **environment):
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        check=False,
        timeout=120,
    )


def test_characters_that_the_locale_lacks_never_raise(begun):
    """Evidence with an emoji, under LC_ALL=C with an ASCII stream."""
    ran = run(
        begun.file.parent,
        "show",
        "study.yaml",
        "baseline/1",
        LC_ALL="C",
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
    )

    assert ran.returncode == 0, ran.stderr
    assert b"\\U0001f4a9 no [kernel]" in ran.stdout
    assert ran.stderr == b"Next: sweeper trials study.yaml\n"


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)], ids=["people", "json", "csv"])
def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(begun, form):
    child = subprocess.Popen(
        command("updates", "study.yaml", *form),
        cwd=begun.file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child.stdout.close()

    complaints = child.stderr.read()
    child.stderr.close()

    assert child.wait(timeout=120) == 141
    assert complaints == b""


def test_a_mistake_exits_with_2_and_without_a_traceback(tmp_path):
    ran = run(tmp_path, "trials", "nothing.yaml")

    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr == (
        b"error: nothing.yaml: there is no such study file or run folder. "
        b"Write one with `sweeper init`, or name an existing one.\n"
    )


def redirected(folder, redirection, *arguments):
    """The command as a shell starts it with the redirection."""
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {redirection}', "bash", *command(*arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("redirection", ["2>&-", "<&-", "<&- 2>&-", "2>/dev/full", "2> >(exit)"])
def test_a_standard_error_that_takes_nothing_changes_neither_result_nor_status(begun, redirection):
    asked = redirected(begun.file.parent, "", "trials", "study.yaml", "--csv")
    ran = redirected(begun.file.parent, redirection, "trials", "study.yaml", "--csv")

    assert (ran.returncode, ran.stdout) == (0, asked.stdout)
    assert asked.stdout.startswith("trial,")


@pytest.mark.parametrize("redirection", ["2>&-", ">&- 2>&-", "2>/dev/full"])
def test_a_mistake_exits_with_2_though_nothing_can_be_said_of_it(tmp_path, redirection):
    assert redirected(tmp_path, redirection, "trials", "nothing.yaml").returncode == 2


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)], ids=["people", "json", "csv"])
def test_a_result_that_standard_output_cannot_take_is_an_error(begun, form):
    ran = redirected(begun.file.parent, ">/dev/full", "trials", "study.yaml", *form)

    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr


def test_no_file_that_is_opened_later_becomes_a_missing_standard_stream(tmp_path):
    code = (
        "from sweeper.cli.streams import make_streams_safe; make_streams_safe(); "
        "import os, sys; opened = open('opened', 'w'); assert opened.fileno() > 2; "
        "sys.stderr.write('said'); sys.stdout.write('said'); "
        "assert sys.stdin.read() == ''; assert all(map(os.get_inheritable, range(3)))"
    )
    script = f'exec {sys.executable} -c "{code}" <&- >&- 2>&-'

    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False, timeout=120)

    assert ran.returncode == 0
    assert (tmp_path / "opened").read_text() == ""
