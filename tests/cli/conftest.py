"""The command line called in this process, on recorded studies (see ../report)."""

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

from sweeper.cli import main as entry
from sweeper.cli.main import main

SCRIPT = Path(__file__).parents[1] / "report" / "recorded_studies.py"


def _load():
    spec = importlib.util.spec_from_file_location("cli_recorded_studies", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STUDIES = _load()


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit status and both streams."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True, scope="session")
def one_application():
    """The command line is put together once for the same commands, not for every call of it."""
    original = entry.application
    put_together = functools.cache(lambda _commands: typer.main.get_command(original()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "application", lambda: put_together(entry._COMMANDS))
        yield


@pytest.fixture
def sweeper(capsys):
    """Runs a command line and returns what it left."""

    def run(*arguments) -> Ran:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(end.value.code, captured.out, captured.err)

    return run


@pytest.fixture(autouse=True)
def width(monkeypatch):
    """Lines are as wide as off a terminal, unless a test narrows them."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(scope="session")
def studies():
    """The module that puts studies on record."""
    return STUDIES


@pytest.fixture(scope="session")
def begun_study(tmp_path_factory):
    return STUDIES.begin(tmp_path_factory.mktemp("begun"))


@pytest.fixture
def begun(begun_study, monkeypatch):
    """A study in mid-run, to read only, named from its own folder."""
    monkeypatch.chdir(begun_study.file.parent)
    return begun_study


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory):
    return STUDIES.finish(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def finished(finished_study, monkeypatch):
    """A study that is done, to read only, named from its own folder."""
    monkeypatch.chdir(finished_study.file.parent)
    return finished_study
