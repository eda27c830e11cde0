"""Help, exit statuses and messages: what every command has in common."""

import importlib.metadata

import pytest

from sweeper.cli import main as entry
from sweeper.errors import Fault, NotFound, StoreError

COMMANDS = ["init", "check", "run", "status", "trials", "updates", "show", "compare"]
COMMANDS += ["diagnose", "replay", "retry", "amend", "cancel", "clean", "ls", "logs"]
TABLES = ["evaluations", "attempts", "arms", "differences", "exposure", "stability", "cost"]
COMMANDS += [*TABLES, "metrics", "columns", "attach"]
READERS = ["status", "trials", "updates", "compare", *TABLES, "metrics"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(sweeper, command):
    ran = sweeper(command, "--help")

    assert ran.status == 0
    assert ran.out.startswith(f"Usage: sweeper {command} ")
    assert f"\n    sweeper {command}" in ran.out
    assert "Example" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_listed_with_a_sentence_that_is_not_cut(sweeper, command):
    (line,) = [
        line for line in sweeper("--help").out.splitlines() if line.startswith(f"  {command} ")
    ]

    assert line.endswith(".")
    assert not line.endswith("...")


def test_without_a_command_there_is_help(sweeper):
    ran = sweeper()

    assert ran.status == 2
    assert "Start with: sweeper init" in ran.out + ran.err


def test_the_version_is_the_package_s(sweeper):
    ran = sweeper("--version")

    assert (ran.status, ran.out) == (0, f"sweeper {importlib.metadata.version('sweeper')}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "Error: No such command 'frobnicate'."),
        (["trials", "study.yaml", "--xml"], "Error: No such option: --xml"),
        (["trials", "study.yaml", "more"], "Error: Got unexpected extra argument(s) (more)"),
        (["show", "study.yaml"], "Error: Missing argument 'TRIAL'."),
        (["run", "study.yaml", "--as"], "Error: Option '--as' requires an argument."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_line_that_is_no_command_is_a_mistake_of_the_user(sweeper, arguments, message):
    ran = sweeper(*arguments)

    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.splitlines()[-1] == message


@pytest.mark.parametrize("command", [*READERS, "check", "run"])
def test_a_study_that_does_not_exist_is_a_mistake_of_the_user(
    sweeper, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)

    ran = sweeper(command, "nothing.yaml")

    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("error: nothing.yaml: ")
    assert "no such" in ran.err
    assert "sweeper init" in ran.err


@pytest.mark.parametrize("command", READERS)
def test_a_study_that_has_not_begun_names_the_way_on(
    sweeper, studies, tmp_path, monkeypatch, command
):
    studies.write_file(tmp_path)
    monkeypatch.chdir(tmp_path)

    ran = sweeper(command, "study.yaml")

    assert ran.status == 2
    assert ran.out == ""
    assert ran.err == (
        f"error: {tmp_path}/runs/rates: no study has begun in this folder. "
        "Start it with `sweeper run study.yaml`.\n"
    )


@pytest.mark.parametrize("command", READERS)
def test_the_run_folder_may_stand_for_the_study_file(sweeper, finished, command):
    by_file = sweeper(command, "study.yaml")
    by_folder = sweeper(command, "runs/rates")

    assert by_folder.out == by_file.out
    assert by_folder.err == by_file.err.replace("study.yaml", "runs/rates")


@pytest.mark.parametrize(
    ("command", "next_command"),
    [
        (["status"], "sweeper compare study.yaml"),
        (["trials"], "sweeper compare study.yaml"),
        (["updates"], "sweeper show study.yaml baseline/0"),
        (["compare"], "sweeper trials study.yaml"),
    ],
)
def test_every_reader_ends_by_naming_the_next_command(sweeper, finished, command, next_command):
    ran = sweeper(*command, "study.yaml")

    assert ran.status == 0
    assert ran.err == f"Next: {next_command}\n"


def test_all_faults_of_a_study_file_are_told_each_on_a_line(sweeper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text("nme: x\nseds: [1]\n")

    ran = sweeper("check", "study.yaml")

    lines = ran.err.splitlines()
    assert ran.status == 2
    assert any(line.startswith("error: study.yaml:1: nme: unknown key") for line in lines)
    assert any(line.startswith("error: study.yaml:2: seds: unknown key") for line in lines)
    assert "Traceback" not in ran.err


def test_a_line_number_of_100_is_printed_as_it_is(sweeper, tmp_path, monkeypatch):
    """A colon, a hundred, a colon is a picture to those who print with emoji codes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text("\n" * 99 + "nme: x\n")

    assert "study.yaml:100: " in sweeper("check", "study.yaml").err


def failing(error):
    def command(study: str) -> None:
        """Fail."""
        raise error

    return command


@pytest.fixture
def fail_with(monkeypatch, sweeper):
    """Runs a command that raises the error."""

    def run(error, *options):
        monkeypatch.setattr(entry, "_COMMANDS", ((entry.show, ()), (failing(error), ())))
        return sweeper(*options, "command", "study.yaml")

    return run


def test_a_failure_of_ours_exits_with_1(fail_with):
    ran = fail_with(StoreError(Fault(what="the study database cannot be used", got="a lock")))

    assert ran.status == 1
    assert ran.err == "error: the study database cannot be used (got a lock).\n"


def test_a_mistake_of_the_user_exits_with_2(fail_with):
    ran = fail_with(NotFound(Fault(what="there is no such thing")))

    assert (ran.status, ran.err) == (2, "error: there is no such thing.\n")


def test_an_unforeseen_error_is_one_line_without_a_traceback(fail_with):
    ran = fail_with(ZeroDivisionError("by [zero]"))

    assert ran.status == 1
    assert ran.out == ""
    assert ran.err == (
        "error: sweeper failed unexpectedly: ZeroDivisionError: by [zero]. Nothing recorded is "
        "lost. Run the same command with --debug and report what it prints.\n"
    )


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), NotFound(Fault(what="there is no such thing"))]
)
def test_debug_shows_the_traceback_and_the_message(fail_with, error):
    ran = fail_with(error, "--debug")

    assert ran.err.startswith("Traceback (most recent call last):\n")
    assert ran.err.splitlines()[-1].startswith("error: ")


def test_debug_may_stand_behind_the_command(sweeper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert sweeper("trials", "nothing.yaml", "--debug").err.startswith("Traceback")


def test_an_interrupted_command_exits_with_130(fail_with):
    ran = fail_with(KeyboardInterrupt())

    assert (ran.status, ran.out, ran.err) == (130, "", "")
