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
