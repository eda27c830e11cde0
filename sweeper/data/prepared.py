"""Tokenised splits on disk, as memory-mapped arrays. Torch-free.

One folder per split, one `.npy` file per array; what a trial reads is these and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sweeper.errors import Fault, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRecord:
    """One record as tokens, on its way to disk.

    Attributes:
        token_ids: `[tokens]`.
        supervised: `[tokens]`; position 0 never is a target.
        digest: SHA-256 of the canonical record, 32 bytes.
        group: SHA-256 of the value in the study's group column, 32 bytes; None where the study has
            none: the record is a group of its own.
    """

    token_ids: Sequence[int]
    supervised: Sequence[bool]
    digest: bytes
    group: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSplit:
    """A split as tokens; the arrays are memory maps, read only.

    It is what `stream.plan_stream` asks for.

    Attributes:
        token_ids: `[tokens]`, all records end to end.
        supervised: `[tokens]`; True where the token is a target.
        offsets: `[records + 1]`; record i is offsets[i] to offsets[i + 1].
        digests: `[records, 32]`, SHA-256 of each canonical record.
        groups: `[records, 32]`, SHA-256 of the value that each record shares with its group; its
            own digest where the study has no group column.
        target_counts: `[records]`, targets per record, each above zero.
    """

    token_ids: NDArray[np.int32]
    supervised: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    digests: NDArray[np.uint8]
    groups: NDArray[np.uint8]
    target_counts: NDArray[np.int64]

    @classmethod
    def open(cls, prepared: Path, name: str) -> PreparedSplit:
        """Returns the split `name` of a folder that `python -m sweeper.data` wrote.

        Raises:
            NotFound: The folder holds no such split.
        """
        folder = prepared / name
        if not folder.is_dir():
            raise NotFound(Fault(what=f"there is no prepared split `{name}`", where=str(prepared)))
        supervised = np.load(folder / "supervised.npy", mmap_mode="r")
        offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        return cls(
            token_ids=np.load(folder / "token_ids.npy", mmap_mode="r"),
            supervised=supervised,
            offsets=offsets,
            digests=np.load(folder / "digests.npy", mmap_mode="r"),
            groups=np.load(folder / "groups.npy", mmap_mode="r"),
            target_counts=np.add.reduceat(supervised, offsets[:-1], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per record, `[records]`."""
        lengths: NDArray[np.int64] = np.diff(self.offsets)
        return lengths

    @property
    def records_digest(self) -> str:
        """SHA-256 over the records in their order, hexadecimal."""
        return hashlib.sha256(np.ascontiguousarray(self.digests).tobytes()).hexdigest()

    def example(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Returns token ids and supervised positions of one record, `[tokens]` each."""
        span = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        return self.token_ids[span], self.supervised[span]

    def length_to_target(self, index: int, target: int) -> int:
        """Returns the tokens of a record up to and with its `target`-th target, from 1."""
        return int(np.flatnonzero(self.example(index)[1])[target - 1]) + 1


def write_split(folder: Path, records: Sequence[EncodedRecord]) -> None:
    """Writes a split of at least one record; flushing to the disk is up to the caller."""
    folder.mkdir()
    lengths = [len(record.token_ids) for record in records]
    token_ids = [np.asarray(record.token_ids, dtype=np.int32) for record in records]
    supervised = [np.asarray(record.supervised, dtype=np.bool_) for record in records]
    np.save(folder / "token_ids.npy", np.concatenate(token_ids), allow_pickle=False)
    np.save(folder / "supervised.npy", np.concatenate(supervised), allow_pickle=False)
    np.save(folder / "offsets.npy", np.cumsum([0, *lengths], dtype=np.int64), allow_pickle=False)
    np.save(folder / "digests.npy", _rows(record.digest for record in records), allow_pickle=False)
    groups = _rows(record.group or record.digest for record in records)
    np.save(folder / "groups.npy", groups, allow_pickle=False)


def _rows(digests: Iterable[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, 32)
