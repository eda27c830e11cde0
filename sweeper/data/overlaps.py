"""Records that occur in more than one split. Pure.

Exact duplicates (equal canonical records) and equal prompts with other answers are counted apart:
the first spoil a comparison, the second may be meant. Nothing here quotes a record.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweeper.data.manifest import LISTED_RECORDS, Dropped, DropReason, Overlap
from sweeper.data.problems import counted, listed
from sweeper.data.splits import LoadedRecord, LoadedSplit
from sweeper.errors import DataError, Fault

_ORDER = ("train", "validation", "retention", "test")
_HINT = "Remove them, or set data.duplicates: drop_from_train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The splits after the policy on duplicates, and what was found before it.

    Attributes:
        dropped: What was taken out of train.
    """

    splits: Mapping[str, LoadedSplit]
    overlaps: tuple[Overlap, ...]
    dropped: tuple[Dropped, ...]
    notices: tuple[str, ...]


def compare_splits(splits: Mapping[str, LoadedSplit], *, drop_from_train: bool) -> Compared:
    """Counts what splits share, and takes records equal to held-out ones out of train if asked.

    Raises:
        DataError: Records of train are also held out, or of validation also in test, and dropping
            was not asked for; or dropping would leave nothing.
    """
    ordered = [splits[name] for name in _ORDER if name in splits]
    pairs = list(itertools.combinations(ordered, 2))
    overlaps = tuple(overlap for pair in pairs for overlap in overlaps_between(*pair))
    if not drop_from_train:
        _refuse_duplicates(splits, overlaps)
    train = splits["train"]
    held_out = {record.digest for split in ordered[1:] for record in split.records}
    kept = tuple(record for record in train.records if record.digest not in held_out)
    if not kept:
        what = "every record of train is also held out"
        raise DataError(Fault(what=what, where=str(train.source.path), hint="Check the paths"))
    notices = (*_prompt_notices(overlaps), *_exact_notices(overlaps), *_repeats(splits))
    return Compared(
        splits={**splits, "train": dataclasses.replace(train, records=kept)},
        overlaps=overlaps,
        dropped=_dropped([record for record in train.records if record.digest in held_out]),
        notices=notices,
    )


def record_numbers(records: Iterable[LoadedRecord]) -> tuple[int, ...]:
    """Returns the numbers of the first records, as many as a manifest lists."""
    return tuple(record.place.record for record in itertools.islice(records, LISTED_RECORDS))


def _dropped(records: Sequence[LoadedRecord]) -> tuple[Dropped, ...]:
    if not records:
        return ()
    numbers = record_numbers(records)
    return (Dropped(reason=DropReason.DUPLICATE, count=len(records), record_numbers=numbers),)


def overlaps_between(split: LoadedSplit, held_out: LoadedSplit) -> tuple[Overlap, Overlap]:
    """Returns the exact overlap of two splits, and that of their prompts alone."""
    digests = {record.digest for record in held_out.records}
    prompts = {record.prompt for record in held_out.records}
    exact = [record for record in split.records if record.digest in digests]
    prompt = [
        record
        for record in split.records
        if record.prompt in prompts and record.digest not in digests
    ]
    return (
        Overlap(
            kind="exact",
            split=split.name,
            held_out=held_out.name,
            count=len(exact),
            record_numbers=record_numbers(exact),
        ),
        Overlap(
            kind="prompt",
            split=split.name,
            held_out=held_out.name,
            count=len(prompt),
            record_numbers=record_numbers(prompt),
        ),
    )


def _refuse_duplicates(splits: Mapping[str, LoadedSplit], overlaps: Iterable[Overlap]) -> None:
    faults = [
        _duplicates(splits[overlap.split], splits[overlap.held_out], overlap)
        for overlap in overlaps
        if overlap.kind == "exact" and overlap.count and _spoils(overlap)
    ]
    if faults:
        raise DataError(*faults)


def _spoils(overlap: Overlap) -> bool:
    return overlap.split == "train" or (overlap.split, overlap.held_out) == ("validation", "test")


def _duplicates(split: LoadedSplit, held_out: LoadedSplit, overlap: Overlap) -> Fault:
    total = len(split.records)
    same = overlap.count == total and {r.digest for r in split.records} == {
        r.digest for r in held_out.records
    }
    if same:
        what = f"{held_out.name} holds the same records as {split.name}"
        hint = "Give each split records of its own"
    else:
        verb = "is" if overlap.count == 1 else "are"
        what = f"{counted(overlap.count)} of {split.name} {verb} also in {held_out.name}"
        hint = _HINT if split.name == "train" else f"Remove them from {split.name}"
    numbers = listed(overlap.record_numbers, overlap.count)
    where = f"{split.source.path} and {held_out.source.path}"
    return Fault(what=what, where=where, got=f"number {numbers} of {total}", hint=hint)


def _prompt_notices(overlaps: Iterable[Overlap]) -> Iterable[str]:
    for overlap in overlaps:
        if overlap.kind == "prompt" and overlap.count:
            numbers = listed(overlap.record_numbers, overlap.count)
            share = f"share their prompt, not their answer, with {overlap.held_out}"
            yield f"{overlap.split}: {counted(overlap.count)} {share} (number {numbers})"


def _exact_notices(overlaps: Iterable[Overlap]) -> Iterable[str]:
    for overlap in overlaps:
        if overlap.kind == "exact" and overlap.count:
            numbers = listed(overlap.record_numbers, overlap.count)
            done = "; dropped from train" if overlap.split == "train" else "; kept in both"
            equal = f"equal to records of {overlap.held_out}"
            yield f"{overlap.split}: {counted(overlap.count)} {equal} (number {numbers}){done}"


def _repeats(splits: Mapping[str, LoadedSplit]) -> Iterable[str]:
    for name, split in splits.items():
        repeated = len(split.records) - len({record.digest for record in split.records})
        if repeated:
            yield f"{name}: {counted(repeated)} equal to an earlier one of the same split; all kept"
