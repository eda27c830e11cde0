"""What the loop reads: examples, the windows they come in, and held-out sets. Numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One record within an example.

    Attributes:
        record: Its index in the prepared split.
        digest: SHA-256 of the canonical record, hexadecimal: the record's id.
        group: What the record belongs to; its own digest where the data have no groups.
        tokens: Tokens of it in the example.
    """

    record: int
    digest: str
    group: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One row of a micro-batch as tokens: one record or, packed, several end to end.

    Attributes:
        token_ids: `[tokens]`, without padding.
        supervised: `[tokens]`; True where the token is a target. The first position of a document
            never is one: nothing of the document stands before it that could predict it.
        documents: The records, in order; their tokens add up to the row's.
        is_packed: Whether this is a row of a packed stream, were it of one document: such rows are
            computed end to end, without padding.
    """

    token_ids: NDArray[np.int32]
    supervised: NDArray[np.bool_]
    documents: tuple[Document, ...]
    is_packed: bool = False

    @property
    def target_tokens(self) -> int:
        """Number of target tokens."""
        return int(self.supervised.sum())

    @property
    def targets_by_document(self) -> tuple[int, ...]:
        """Target tokens of each document."""
        if len(self.documents) == 1:
            return (self.target_tokens,)
        ends = np.cumsum([document.tokens for document in self.documents])
        counts = np.add.reduceat(self.supervised, [0, *ends[:-1]], dtype=np.int64)
        return tuple(counts.tolist())

    @property
    def input_tokens(self) -> int:
        """Number of tokens, padding left out."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWindow:
    """What a window was to hold, known before the first one was read.

    Attributes:
        records: Records, packed or not.
        input_tokens: Tokens, padding left out.
        record_digest: Rolling SHA-256 of all records up to and with this window, hexadecimal.
    """

    records: int
    input_tokens: int
    target_tokens: int
    record_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The records of one planned update, over all ranks.

    Attributes:
        index: From 1, in the order of the stream.
        first_record: Position in the stream of the first record, from 0.
        examples: The records; the last one of the stream may have surplus targets masked.
        planned: What the plan says of it; the ledger compares what was read.
    """

    index: int
    first_record: int
    examples: Sequence[Example]
    planned: PlannedWindow

    @property
    def documents(self) -> tuple[Document, ...]:
        """The window's records, in order."""
        return tuple(document for example in self.examples for document in example.documents)

    @property
    def target_tokens(self) -> int:
        """Target tokens of the whole window: the divisor of its loss."""
        return sum(example.target_tokens for example in self.examples)

    @property
    def input_tokens(self) -> int:
        """Tokens of the whole window, padding left out."""
        return sum(example.input_tokens for example in self.examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutSet:
    """The records of a held-out split that every trial scores.

    Attributes:
        split: `validation` or `retention`.
        set_digest: SHA-256 of the ordered records, hexadecimal.
    """

    split: str
    examples: Sequence[Example]
    set_digest: str
