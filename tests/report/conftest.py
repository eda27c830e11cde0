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
def page_records(tmp_path_factory, page_studies):
    """One study of every kind, on record, to read only."""
    kinds = (
        *("answered", "ruined", "young", "cut_short", "extended", "hostile"),
        *("batches", "reopened"),
    )
    return {kind: getattr(page_studies, kind)(tmp_path_factory.mktemp(kind)) for kind in kinds}


@pytest.fixture(scope="session")
def dossiers(page_records):
    """What is on record of them, as the report reads it."""
    from sweeper.report.dossier import read_dossier

    return {kind: read_dossier(found.folder.path) for kind, found in page_records.items()}


@pytest.fixture(scope="session")
def written_pages(page_records, page_studies):
    """Every kind of study with its report: the record, and what was written."""
    from sweeper.report.document import write_report

    at = page_studies.AT
    return {
        kind: (found, write_report(found.folder.path, at=at))
        for kind, found in page_records.items()
    }


@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    """A study in mid-run, to read only."""
    return STUDIES.begin(tmp_path_factory.mktemp("begun"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A study that is done, to read only."""
    return STUDIES.finish(tmp_path_factory.mktemp("finished"))
