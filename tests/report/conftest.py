"""Recorded studies to read; see recorded_studies.py."""

import importlib.util
import sys
from pathlib import Path

import pytest


def _load(name):
    script = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"report_{name}", script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Made(dict):
    """What is made of a kind of study once somebody asks for it."""

    def __init__(self, make):
        super().__init__()
        self._make = make

    def __missing__(self, kind):
        self[kind] = made = self._make(kind)
        return made


STUDIES = _load("recorded_studies")
PAGES = _load("page_studies")


@pytest.fixture(scope="session")
def studies():
    """The module that puts studies on record."""
    return STUDIES


@pytest.fixture(scope="session")
def page_studies():
    """Puts studies on record of the kinds that a report is read about."""
    return PAGES.Studies(STUDIES)


@pytest.fixture(scope="session")
def page_records(made_once, page_studies):
    """A study of every kind that is asked for, on record, to read only."""

    def record(kind):
        file = made_once(f"page-{kind}", getattr(page_studies, kind)) / "study.yaml"
        name = "answered" if kind == "reopened" else kind
        return STUDIES.Recorded(file, STUDIES.StudyFolder.beside(file, name))

    return Made(record)


@pytest.fixture(scope="session")
def dossiers(page_records):
    """What is on record of them, as the report reads it."""
    from sweeper.report.dossier import read_dossier

    return Made(lambda kind: read_dossier(page_records[kind].folder.path))


@pytest.fixture(scope="session")
def written_pages(page_records, page_studies):
    """A kind of study with its report: the record, and what was written."""
    from sweeper.report.document import write_report

    at = page_studies.AT

    def write(kind):
        found = page_records[kind]
        return found, write_report(found.folder.path, at=at)

    return Made(write)


@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    """A study in mid-run, to read only."""
    return STUDIES.begin(tmp_path_factory.mktemp("begun"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A study that is done, to read only."""
    return STUDIES.finish(tmp_path_factory.mktemp("finished"))
