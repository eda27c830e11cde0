"""Recorded studies to read; see recorded_studies.py."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("recorded_studies.py")


def _load():
    spec = importlib.util.spec_from_file_location("report_recorded_studies", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STUDIES = _load()


@pytest.fixture(scope="session")
def studies():
    """The module that puts studies on record."""
    return STUDIES


@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    """A study in mid-run, to read only."""
    return STUDIES.begin(tmp_path_factory.mktemp("begun"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A study that is done, to read only."""
    return STUDIES.finish(tmp_path_factory.mktemp("finished"))
