"""The chain of a study's record, as those outside the database read it and add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.selection.chain import EntryKind, Link
from sweeper.store import chain
from sweeper.store.database import Database


class RecordChain:
    """The chain of one study; see `StudyStore` on transactions and threads.

    Raises:
        StoreError: From every method: the database cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def links(self, kind: EntryKind | None = None) -> tuple[Link, ...]:
        """Returns the chain, or its entries of one kind, the first one first."""
        return self._database.read(lambda c: chain.links(c, kind))

    def last(self, kind: EntryKind | None = None) -> Link | None:
        """Returns the last entry, or the last one of that kind; None before there is one."""
        return self._database.read(lambda c: chain.last(c, kind))

    def append(self, kind: EntryKind, facts: Mapping[str, object]) -> Link:
        """Adds an entry for what is told nowhere else in the record.

        Raises:
            ValueError: A number in it is not finite.
        """
        return self._database.write(lambda c: chain.append(c, kind, facts))

    def restore(self, links: Sequence[Link]) -> None:
        """Fills the chain of a fresh database; what is recorded afterwards is not told again."""
        self._database.write(lambda c: chain.restore(c, links))

    def recorded_endings(
        self, events: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], dict[str, object]]:
        """Returns what entries on ended attempts would say now; see `chain.recorded_endings`."""
        return self._database.read(lambda c: chain.recorded_endings(c, events))

    def recorded_interventions(self) -> dict[int, dict[str, object]]:
        """Returns what entries on interventions would say now, by number."""
        return self._database.read(chain.recorded_interventions)

    def mirrored_choice(self) -> object:
        """Returns what the Optuna study says of the choice; None where it says nothing."""
        return self._database.read(chain.mirrored_choice)
