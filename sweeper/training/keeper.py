"""When checkpoints are made, where a trial's files go, and how many checkpoints stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sweeper.records import Phase, Record, Resumed
from sweeper.training.agreement import require_agreement
from sweeper.training.best import Best
from sweeper.training.checkpoint import keep_newest, write_checkpoint
from sweeper.training.phases import Phases
from sweeper.training.ranks import Ranks
from sweeper.training.snapshot import State, gather_random_states, take

CHECKPOINTS = "checkpoints"
EVALUATIONS = "evaluations"
EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a trial leaves on disk while it runs.

    Attributes:
        folder: Of the attempt; None: nothing is written at all.
        every_seconds: Between two checkpoints, on rank 0's clock; None: not by time.
        every_windows: Between two checkpoints; None: not by windows.
        keep: How many checkpoints stay.
        best: Where the weights with the lowest validation loss are kept; None: they are not.
        owner: What a checkpoint belongs to, by name; see `checkpoint.write_checkpoint`.
        resumed: The checkpoint that the attempt itself went on from; None: it began anew.
    """

    folder: Path | None = None
    every_seconds: float | None = None
    every_windows: int | None = None
    keep: int = 2
    best: Best | None = None
    owner: Mapping[str, str] = field(default_factory=dict)
    resumed: Resumed | None = None


class Keeper:
    """Makes checkpoints of a state when they are due; every rank has one, and rank 0 writes."""

    def __init__(  # what is kept, of which trial, and how it is told
        self,
        keeping: Keeping,
        state: State,
        ranks: Ranks,
        *,
        phases: Phases,
        emit: Callable[[Record], None],
        clock: Callable[[], float],
    ) -> None:
        self._keeping = keeping
        self.state = state
        self.ranks = ranks
        self.phases = phases
        self.emit = emit
        self.clock = clock
        self._made_at = clock()

    @property
    def checkpoints(self) -> Path | None:
        """Where checkpoints go; None on ranks that do not write, and where nothing is left."""
        return self._folder(CHECKPOINTS)

    @property
    def evaluations(self) -> Path | None:
        """Likewise for the losses of records."""
        return self._folder(EVALUATIONS)

    @property
    def evidence(self) -> Path | None:
        """Likewise for what a stop condition leaves."""
        return self._folder(EVIDENCE)

    @property
    def resumed(self) -> Resumed | None:
        """The checkpoint that the attempt went on from."""
        return self._keeping.resumed

    def save_if_due(self) -> None:
        """Makes a checkpoint if one is due after the window just read.

        Raises:
            OSError: It cannot be written.
        """
        if self._is_due():
            self.save()

    def save(self) -> None:
        """Makes a checkpoint and removes those that are too many; all ranks have to call it.

        Raises:
            RanksDisagree: A rank holds other weights than the rest.
            OSError: It cannot be written.
        """
        if self._keeping.folder is None:
            return
        self.phases.begin(Phase.CHECKPOINTING)
        device = next(iter(self.state.tensors.values())).device
        require_agreement(self.state, self.ranks)
        randoms = gather_random_states(self.ranks, device)
        if self.checkpoints is not None:
            snapshot, owner = take(self.state, randoms, device), self._keeping.owner
            self.emit(write_checkpoint(self.checkpoints, snapshot, owner=owner))
            keep_newest(self.checkpoints, self._keeping.keep)
        self._made_at = self.clock()
        self.phases.begin(Phase.TRAINING)

    def _is_due(self) -> bool:
        every = self._keeping.every_windows
        if self._keeping.folder is None:
            return False
        if every is not None:
            return self.state.exposure.windows % every == 0
        if self._keeping.every_seconds is None:
            return False
        late = self.clock() - self._made_at >= self._keeping.every_seconds
        return self.ranks.any(flag=late and self.ranks.rank == 0)

    def _folder(self, name: str) -> Path | None:
        folder = self._keeping.folder
        return None if folder is None or self.ranks.rank > 0 else folder / name
