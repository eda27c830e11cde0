"""Metrics that users attach are shown, and nothing that judges or chooses can read them."""

import ast
import functools
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "sweeper"

SHOW = {"report/run_tables.py", "report/tables.py", "report/dossier.py"}
"""Modules that read them to show them."""


def reads_metrics(source):
    """Whether it calls the store's `metrics`, or imports the module or table behind it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="metrics")):
                return True
            case ast.ImportFrom(module="sweeper.store.tables", names=names):
                if "METRIC" in {alias.name for alias in names}:
                    return True
    return False


@functools.cache
def readers():
    modules = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    return {name for name, path in modules.items() if reads_metrics(path.read_text("utf-8"))}


def test_only_tables_and_the_report_read_them():
    outside = {name for name in readers() if not name.startswith("store/")}

    assert outside <= SHOW


def test_within_the_store_they_are_read_by_their_own_module():
    inside = {name for name in readers() if name.startswith("store/")}

    assert inside == {"store/metrics.py"}


def test_selection_knows_of_none():
    modules = [*(PACKAGE / "selection").glob("*.py")]

    assert len(modules) > 10
    assert [path.name for path in modules if "sweeper_metric" in path.read_text("utf-8")] == []
    assert {name for name in readers() if name.startswith("selection/")} == set()


@pytest.mark.parametrize(
    "source", ["rows = store.metrics()", "from sweeper.store.tables import CELL, METRIC"]
)
def test_such_a_line_would_be_found(source):
    assert reads_metrics(source)
