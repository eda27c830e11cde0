"""What the loop reads: examples, the windows they come in, and held-out sets. Numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One record as tokens.

    Attributes:
        token_ids: `[tokens]`, without padding.
        supervised: `[tokens]`; True where the token is a target. Position 0 never is one: nothing
            stands before it that could predict it.
    """

    token_ids: NDArray[np.int32]
    supervised: NDArray[np.bool_]

    @property
    def target_tokens(self) -> int:
        """Number of target tokens."""
        return int(self.supervised.sum())

    @property
    def input_tokens(self) -> int:
        """Number of tokens, padding left out."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The records of one planned update, over all ranks.

    Attributes:
        index: From 1, in the order of the stream.
        first_record: Position in the stream of the first record, from 0.
        examples: The records; the last one of the stream may have surplus targets masked.
        record_digest: Rolling SHA-256 of all records up to and with this window, hexadecimal.
    """

    index: int
    first_record: int
    examples: Sequence[Example]
    record_digest: str

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
