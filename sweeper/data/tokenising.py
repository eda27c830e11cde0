"""A split's records as tokens, under the study's policy on records that are too long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeper.data.encoding import Encoded, Encoder
from sweeper.data.manifest import Dropped, DropReason
from sweeper.data.overlaps import record_numbers
from sweeper.data.prepared import EncodedRecord
from sweeper.data.problems import BadRecord, Tally, counted, listed
from sweeper.data.record import group_digest
from sweeper.data.splits import LoadedRecord, LoadedSplit
from sweeper.errors import DataError, Fault

_HINT = "Raise data.max_length, shorten the prompts"

_Pair = tuple[LoadedRecord, Encoded]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPolicy:
    """What becomes of records longer than `max_length` tokens."""

    max_length: int
    overlong: Literal["drop", "cut", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenisedSplit:
    """A split as tokens; every record has a target.

    Attributes:
        cut: Records whose end was cut off.
    """

    records: tuple[EncodedRecord, ...]
    dropped: tuple[Dropped, ...]
    cut: int
    notices: tuple[str, ...]


def tokenise(split: LoadedSplit, encoder: Encoder, policy: LengthPolicy) -> TokenisedSplit:
    """Returns the records that have targets within `max_length`.

    Raises:
        DataError: A record cannot be encoded or, where the policy says so, is too long; or no
            record is left.
    """
    encoded = _encoded(split, encoder)
    long = [(record, tokens) for record, tokens in encoded if _is_long(tokens, policy)]
    if policy.overlong == "refuse":
        _refuse(split, long, policy)
    shortened = [(record, tokens.cut(policy.max_length)) for record, tokens in encoded]
    fitting = shortened if policy.overlong == "cut" else _without(encoded, long)
    empty = [(record, tokens) for record, tokens in fitting if tokens.targets == 0]
    kept = _without(fitting, empty)
    dropped_long = long if policy.overlong == "drop" else []
    if not kept:
        raise DataError(_nothing_left(split, encoded, policy))
    dropped = [
        *_dropped(DropReason.OVERLONG, dropped_long),
        *_dropped(DropReason.NO_TARGETS, empty),
    ]
    cut = len(long) - len(_shared(long, empty)) if policy.overlong == "cut" else 0
    return TokenisedSplit(
        records=tuple(_as_encoded(record, tokens) for record, tokens in kept),
        dropped=tuple(dropped),
        cut=cut,
        notices=tuple(_notices(split, dropped, cut, policy)) + tuple(_endless(split, encoded)),
    )


def _encoded(split: LoadedSplit, encoder: Encoder) -> list[_Pair]:
    tally = Tally()
    encoded: list[_Pair] = []
    for record in split.records:
        try:
            encoded.append((record, encoder.encode(record.record)))
        except BadRecord as problem:
            tally.add(problem, record.place)
    faults = tally.faults(str(split.source.path))
    if faults:
        raise DataError(*faults)
    return encoded


def _is_long(tokens: Encoded, policy: LengthPolicy) -> bool:
    return len(tokens.token_ids) > policy.max_length


def _without(pairs: Sequence[_Pair], others: Sequence[_Pair]) -> list[_Pair]:
    numbers = {record.place.record for record, _ in others}
    return [pair for pair in pairs if pair[0].place.record not in numbers]


def _shared(pairs: Sequence[_Pair], others: Sequence[_Pair]) -> list[_Pair]:
    numbers = {record.place.record for record, _ in others}
    return [pair for pair in pairs if pair[0].place.record in numbers]


def _dropped(reason: DropReason, pairs: Sequence[_Pair]) -> list[Dropped]:
    if not pairs:
        return []
    numbers = record_numbers(record for record, _ in pairs)
    return [Dropped(reason=reason, count=len(pairs), record_numbers=numbers)]


def _as_encoded(record: LoadedRecord, tokens: Encoded) -> EncodedRecord:
    return EncodedRecord(
        token_ids=tokens.token_ids,
        supervised=tokens.supervised,
        digest=record.digest,
        group=None if record.group is None else group_digest(record.group),
    )


def _refuse(split: LoadedSplit, long: Sequence[_Pair], policy: LengthPolicy) -> None:
    tally = Tally()
    for record, tokens in long:
        problem = BadRecord(
            f"the record is longer than data.max_length: {policy.max_length} tokens",
            detail=_lengths(tokens),
            hint=f"{_HINT}, or set data.overlong: drop or cut",
        )
        tally.add(problem, record.place)
    faults = tally.faults(str(split.source.path))
    if faults:
        raise DataError(*faults)


def _lengths(tokens: Encoded) -> str:
    before = tokens.supervised.index(True) if tokens.targets else len(tokens.token_ids)
    return f"{len(tokens.token_ids)} tokens, {before} of them before the first target"


def _nothing_left(split: LoadedSplit, encoded: Sequence[_Pair], policy: LengthPolicy) -> Fault:
    record, tokens = encoded[0]
    return Fault(
        what=f"no record of {split.name} has a target token within data.max_length: "
        f"{policy.max_length}",
        where=str(split.source.path),
        got=f"{counted(len(encoded))}; {record.place}, for instance: {_lengths(tokens)}",
        hint=f"{_HINT}, or set data.overlong: cut" if policy.overlong == "drop" else _HINT,
    )


def _notices(
    split: LoadedSplit, dropped: Sequence[Dropped], cut: int, policy: LengthPolicy
) -> Iterator[str]:
    why = {
        DropReason.OVERLONG: f"longer than {policy.max_length} tokens",
        DropReason.NO_TARGETS: f"without a target token within {policy.max_length} tokens",
    }
    for entry in dropped:
        numbers = listed(entry.record_numbers, entry.count)
        what = f"{counted(entry.count)} {why[entry.reason]} dropped (number {numbers})"
        yield f"{split.name}: {what}; raise data.max_length or shorten the prompt to keep them"
    if cut:
        yield f"{split.name}: {counted(cut)} cut off at {policy.max_length} tokens"


def _endless(split: LoadedSplit, encoded: Sequence[_Pair]) -> Iterator[str]:
    count = sum(not tokens.has_end for _, tokens in encoded)
    if count:
        why = "the chat template writes none, so the model does not learn to stop"
        yield f"{split.name}: {counted(count)} without an end token: {why}"
