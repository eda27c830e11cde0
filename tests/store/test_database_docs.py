"""docs/database.md says what is so: every column, and examples that run on both databases."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

from sweeper.report.columns import ATTEMPTS, EVALUATIONS, TRIALS, UPDATES
from sweeper.store.endings import Cost

PAGE = (Path(__file__).parents[2] / "docs" / "database.md").read_text(encoding="utf-8")
VIEWS = {
    "sweeper_trials": TRIALS,
    "sweeper_updates": UPDATES,
    "sweeper_evaluations": EVALUATIONS,
    "sweeper_attempts": ATTEMPTS,
}
EXAMPLES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("view", VIEWS)
def test_every_column_is_there_with_its_unit_and_meaning(view):
    section = PAGE.partition(f"### {view}\n")[2].partition("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]

    assert rows == [f"| {c.name} | {c.unit or ''} | {c.meaning} |" for c in VIEWS[view]]


@pytest.fixture
def trials(store, owner, numbered, update, evaluation, completed):
    """Baseline and double of seed 0 are completed, with losses 2.0 and 2.5; two cells wait."""
    for cell, loss in (("baseline/0", 2.0), ("double/0", 2.5)):
        claim = store.claim(owner, "cpu0", cell=cell)
        read = {"window": 1, "target_tokens_read": 100}
        store.ingest(claim, numbered(update(**read), evaluation(index=1, loss=loss, **read)))
        store.finish(claim, completed, max_resumes=3, cost=Cost(wall_seconds=8.0))


@pytest.fixture
def query(url, database):
    """Runs SQL as any user of it does."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(database)
    else:
        connection = psycopg.connect(url.replace("+psycopg", ""))
    with contextlib.closing(connection):
        yield lambda sql: connection.execute(sql).fetchall()


@pytest.mark.every_database
def test_the_examples_in_sql_run_and_say_what_they_are_about(trials, query):
    arms, differences, missing, curve, costs = (query(sql) for sql in EXAMPLES)

    assert arms == [("baseline", 2, 1, 2.0), ("double", 2, 1, 2.5)]
    assert differences == [("double", 0, 0.5), ("double", 1, None)]
    assert missing == [("baseline/1", None, None, None), ("double/1", None, None, None)]
    assert curve == [(1, 100, 0.0002, 2.5, 0.75)]
    assert costs == [("here", "cpu0", 2, 16.0, 0.0)]


def test_the_example_with_pandas_runs(trials, url):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}

    exec(code.replace("sqlite:///runs/lora-rate/study.db", url), names)

    assert names["curves"].to_dict() == {"baseline/0": {1: 2.5}, "double/0": {1: 2.5}}
