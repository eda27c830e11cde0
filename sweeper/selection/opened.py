"""What opening the test split brought, as the chain has it: losses, digests and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from sweeper.selection.chain import EntryKind, Link
from sweeper.selection.frozen import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLoss:
    """What one frozen checkpoint scored; nats per target token.

    Attributes:
        arm: None for the untrained model.
        validation_loss: As it is on record; what was computed again agrees with it.
        test_loss: None where it is not finite.
        per_record_path: The losses of single records, relative to the run folder.
    """

    role: Role
    arm: str | None
    seed: int
    validation_loss: float
    test_loss: float | None
    per_record_path: str
    per_record_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedOverlap:
    """Records of another split that the test split has too; nothing of what they say.

    Attributes:
        kind: `exact`: equal canonical records. `prompt`: an equal prompt with another answer.
        split: The other split, as it was prepared.
        count: None where it cannot be known any more.
        record_numbers: The first of them, from 1 in the order of the other split.
        test_records: How many records of the test split they equal; None of prompts, and where it
            was not counted.
    """

    kind: str
    split: str
    count: int | None
    record_numbers: tuple[int, ...] = ()
    test_records: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One opening of the test split.

    Attributes:
        opening: 1 for the first, the only one that counts.
        frozen: Digest of the chain's entry with the selection that it was opened for.
        chosen: The chosen arm.
        records_digest: Digest of the ordered canonical records that were read: the seal.
        records_read: Of them.
        records: That were scored; too long ones are treated as in training.
        target_tokens: Of the records that were scored.
        set_digest: Digest of the ordered records that were scored.
        environment: What they were scored on, by field.
        reason: Why it was opened again; None for the first.
    """

    opening: int
    frozen: str
    chosen: str
    records_digest: str
    records_read: int
    records: int
    target_tokens: int
    set_digest: str
    overlaps: tuple[OpenedOverlap, ...]
    losses: tuple[OpenedLoss, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None

    @property
    def leaks(self) -> tuple[OpenedOverlap, ...]:
        """The splits that decided about the weights and have records of the test split."""
        return tuple(
            each
            for each in self.overlaps
            if each.kind == "exact" and each.count and each.split in _DECIDING
        )

    def to_entry(self) -> dict[str, object]:
        """Returns plain values, for the chain."""
        return asdict(self)

    @classmethod
    def from_entry(cls, entry: Mapping[str, object]) -> Opened:
        """Returns what `to_entry` made, also after it was JSON.

        Raises:
            ValueError: It is nothing of the kind.
        """
        try:
            overlaps = tuple(_overlap(each) for each in _entries(entry["overlaps"]))
            losses = tuple(_loss(each) for each in _entries(entry["losses"]))
            fields = {**entry, "overlaps": overlaps, "losses": losses}
            return cls(**fields)  # type: ignore[arg-type]  # the names and types are the entry's
        except (KeyError, TypeError) as error:
            raise ValueError(f"no result of an opening: {error}") from error


_DECIDING = frozenset({"train", "validation"})
"""What was trained on, and what selected: a test record among them is not unseen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Openings:
    """What the chain says about the test split.

    Attributes:
        frozen: The last selection; None before there is one.
        unfinished: The last intent, of a first opening or of another, that no result followed.
        aborted: How many intents before that one had no result either.
        results: In the order they came; only the first counts.
        result_links: Their entries.
    """

    frozen: Link | None = None
    unfinished: Link | None = None
    aborted: int = 0
    results: tuple[Opened, ...] = ()
    result_links: tuple[Link, ...] = ()


def openings_in(links: Sequence[Link]) -> Openings:
    """Returns what the chain says about the test split.

    Raises:
        ValueError: An entry is none of ours.
    """
    frozen: Link | None = None
    unfinished: Link | None = None
    intents = 0
    results: list[Link] = []
    for link in links:
        match link.kind:
            case EntryKind.SELECTION_FROZEN:
                frozen = link
            case EntryKind.TEST_INTENT | EntryKind.TEST_REPEAT:
                unfinished, intents = link, intents + 1
            case EntryKind.TEST_RESULT:
                unfinished = None
                results.append(link)
    return Openings(
        frozen=frozen,
        unfinished=unfinished,
        aborted=intents - len(results) - (unfinished is not None),
        results=tuple(Opened.from_entry(link.facts) for link in results),
        result_links=tuple(results),
    )


def _entries(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list | tuple):
        raise TypeError("not a list")
    return value


def _overlap(plain: Mapping[str, object]) -> OpenedOverlap:
    listed = plain["record_numbers"]
    if not isinstance(listed, list | tuple):
        raise TypeError("record numbers are no list")
    numbers = tuple(int(number) for number in listed)
    return OpenedOverlap(**{**plain, "record_numbers": numbers})  # type: ignore[arg-type]


def _loss(plain: Mapping[str, object]) -> OpenedLoss:
    role = Role(str(plain["role"]))
    return OpenedLoss(**{**plain, "role": role})  # type: ignore[arg-type]
