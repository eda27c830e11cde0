"""Reads a user's own metrics from a file: CSV, JSON, JSON Lines or Parquet, and every fault of it.

A row names a trial, by `trial` or by `arm` and `seed`; every further column is a metric. An empty
cell is no value. Everything else that is not a finite decimal number is a fault.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import DataError, Fault, nearest
from sweeper.store.metrics import Place, Source
from sweeper.store.plain import harmless
from sweeper.sweep.metric_rows import WrittenRow, WrittenTable, read_rows, shown

NAMING = ("trial", "arm", "seed")
LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*")
_NUMBER = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
"""Decimal, as CSV has them; what is not finite is recognised to be told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What metrics may be attached to.

    Attributes:
        trials: Ids by arm and seed.
        taken: Names that the columns of trials have anyway.
    """

    trials: Mapping[tuple[str, int], str]
    taken: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFile:
    """A file without faults.

    Attributes:
        by_place: Values, by trial and metric.
        places: Where in the file each of them is.
    """

    source: Source
    by_place: Mapping[Place, float]
    places: Mapping[Place, str]


def read_metrics(file: Path, planned: Planned) -> MetricFile:
    """Returns the metrics that a file holds.

    Raises:
        DataError: It cannot be read, or something is wrong with it; all faults are in it.
    """
    content = _content(file)
    table = read_rows(file, content)
    faults = [*_header_faults(table, planned), *table.faults]
    if not _says_which_trial(table):
        raise DataError(*faults)
    metrics = [name for name in table.names if name not in NAMING]
    values: dict[Place, float] = {}
    places: dict[Place, str] = {}
    seen: dict[str, str] = {}
    for row in table.rows:
        trial = _trial(row, planned, seen)
        found = [trial] if isinstance(trial, Fault) else []
        for name in metrics:
            value = _value(row, name)
            if isinstance(value, Fault):
                found.append(value)
            elif value is not None and isinstance(trial, str):
                values[trial, name], places[trial, name] = value, row.where
        faults += found
    if not values and not faults:
        faults = [Fault(what="the file holds no value of any metric", where=str(file))]
    if faults:
        raise DataError(*faults)
    name, digest = harmless(file.name), hashlib.sha256(content).hexdigest()
    source = Source(name=name, sha256=digest)
    return MetricFile(source=source, by_place=values, places=places)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(
            Fault(what="the file of metrics cannot be read", where=str(file), got=error.strerror)
        ) from error


def _says_which_trial(table: WrittenTable) -> bool:
    return "trial" in table.names or {"arm", "seed"} <= {*table.names}


def _header_faults(table: WrittenTable, planned: Planned) -> Iterator[Fault]:
    names, where = table.names, table.where
    if not _says_which_trial(table):
        expected = "a column trial, or the columns arm and seed"
        got = ", ".join(map(str, names)) or "no column"
        yield Fault(what="no column says which trial", where=where, got=got, expected=expected)
    metrics = [name for name in names if name not in NAMING]
    if not metrics:
        yield Fault(what="there is no column with a metric", where=where)
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Fault(what="a column stands there twice", where=where, got=name)
    for name in dict.fromkeys(metrics):
        if _NAME.fullmatch(name) is None or len(name) > LONGEST_NAME:
            expected = f"a letter, then letters, digits and _ . / @ -; at most {LONGEST_NAME}"
            what = "the name of a metric is not one"
            yield Fault(what=what, where=where, got=shown(name), expected=expected)
        elif name in planned.taken:
            hint = "Leave it out, or give it a name of its own"
            what = f"{name} is a column that trials have anyway"
            yield Fault(what=what, where=where, hint=hint)


def _trial(row: WrittenRow, planned: Planned, seen: dict[str, str]) -> str | Fault:
    """Returns the row's trial; each may be named once."""
    named, arm, seed = (row.cells.get(name) for name in NAMING)
    by_place = planned.trials.get((str(arm), _seed(seed)))
    ids = [*planned.trials.values()]
    trial = by_place if named is None else str(named)
    if trial is None or trial not in ids:
        given = f"{arm}/{seed}" if named is None else str(named)
        close = nearest(given, ids)
        return Fault(
            what="the study has no such trial",
            where=row.where,
            got=shown(given),
            hint=f"Did you mean {close}?" if close else "Write arm and seed, as in double/2",
        )
    if "arm" in row.cells and "seed" in row.cells and trial != by_place:
        what, got = "trial, arm and seed name two trials", f"{trial}, {arm}, {seed}"
        return Fault(what=what, where=row.where, got=shown(got))
    if trial in seen:
        what = f"{trial} stands there twice"
        return Fault(what=what, where=row.where, got=f"the first time at {seen[trial]}")
    seen[trial] = row.where
    return trial


def _seed(value: object) -> int:
    """Returns the seed, or one that no study has."""
    text = str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) else -1


def _value(row: WrittenRow, name: str) -> float | Fault | None:
    written = row.cells.get(name)
    if written is None:
        return None
    value = _number(written, is_text=row.is_text)
    if value is not None and math.isfinite(value):
        return value
    what = f"{name} is not a number" if value is None else f"{name} is not finite"
    hint = "Leave the cell empty where there is no value"
    return Fault(what=what, where=row.where, got=shown(written), hint=hint)


def _number(written: object, *, is_text: bool) -> float | None:
    """Returns the number, finite or not; None where it is none."""
    if isinstance(written, str):
        return float(written) if is_text and _NUMBER.fullmatch(written) else None
    if isinstance(written, bool) or not isinstance(written, int | float):
        return None
    try:
        return float(written)
    except OverflowError:
        return math.inf
