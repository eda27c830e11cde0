"""The words of the report, and the columns of its tables, explained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from sweeper.report.columns import Column, Table

TERMS: Mapping[str, str] = MappingProxyType(
    {
        "study": "one question, asked with one setting that differs and all others held fixed",
        "arm": "one value of that setting; baseline is the one in use now",
        "seed": "a number that fixes data order, initialisation and dropout; all arms share the "
        "seeds, so that they can be compared pair by pair",
        "trial": "one arm with one seed, written arm/seed",
        "attempt": "one execution of a trial; after the loss of a machine another one goes on",
        "target token": "a token that the model is taught to write; prompts and padding are none",
        "window": "the records of one planned update",
        "update": "a step of the optimizer that was made; a window may end in none",
        "budget": "the target tokens that every trial reads, met to the token",
        "loss": "mean negative log-probability of a target token, in nats; lower is better, and "
        "0.01 nats are about 1 % of perplexity",
        "validation": "records that are held out; the only ones that an arm is chosen by",
        "retention": "records of earlier abilities; they guard against damage, and choose nothing",
        "test": "records that stay sealed until the choice is frozen, and are opened once",
        "gate": "what must be equal before two arms are compared, such as data and first losses",
        "stopped": "ended by a rule agreed beforehand: a finding about the arm",
        "limited, lost, failed, cancelled": "ended by a limit, by the machine, by an error or by "
        "the user: no finding about the arm",
        "95 % interval": "from a paired t test over seeds; of such intervals 95 in 100 hold the "
        "true mean difference",
        "Holm p": "how easily chance alone gives a difference like this, with all planned arms "
        "counted; up to 0.05 it is called reliable",
        "provisional": "said with 3 or 4 seeds; it chooses nothing",
        "partial": "trials are missing, and what is said rests on the others",
        "learning rate sensitivity": "by how much the arms' losses are on average above the lowest "
        "arm's, none counted above its initial loss; a number of this range of rates alone",
        "noise floor": "by how much two runs of the same trial differ",
        "fingerprint": "SHA-256 of all that is studied; another one is another study",
        "chain": "the record's entries, each sealed by a digest over those before it; its head "
        "stands for all",
    }
)
"""In the order in which the report needs them."""


def column_meanings(tables: Iterable[Table]) -> list[tuple[str, str, str]]:
    """Returns name, unit and meaning of the columns, each once, by name."""
    found: dict[str, Column] = {}
    for table in tables:
        for column in table.columns:
            found.setdefault(column.name, column)
    return [(name, found[name].unit or "", found[name].meaning) for name in sorted(found)]
