"""When evaluations are made. Torch-free and pure.

Index 0 is before the first update. With `every.target_tokens` = E, index k is made at the first
window whose cumulative target tokens read reach k x E; a window that reaches several multiples at
once is evaluated once, under the highest. The last index, ceil(budget / E), or 1 without a grid, is
made after the last window, once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sweeper.training.exposure import Planned
from sweeper.training.options import EvaluationOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The nominal points of one trial.

    Attributes:
        spacing: Target tokens between two points; None: only the start and the end.
        budget: Target tokens read at the end.
    """

    spacing: int | None
    budget: int

    @classmethod
    def of(cls, options: EvaluationOptions, planned: Planned) -> Grid:
        """Returns the grid that the study asks for."""
        spacing = options.every.target_tokens if options.every is not None else None
        return cls(spacing=spacing, budget=planned.target_tokens)

    @property
    def last(self) -> int:
        """Index of the evaluation at the end."""
        return 1 if self.spacing is None else -(-self.budget // self.spacing)

    def evaluations(self, targets_per_window: Sequence[int]) -> int:
        """Returns how many evaluations these windows bring, the first and the last included."""
        read = [0, *itertools.accumulate(targets_per_window)]
        due = [self.due(read_before=a, read=b) for a, b in itertools.pairwise(read)]
        return 2 + sum(index is not None for index in due)

    def due(self, *, read_before: int, read: int) -> int | None:
        """Returns the index to make after a window that moved the count to `read`, if any.

        The evaluation at the end is not given here: it belongs to the end, not to a window.
        """
        if self.spacing is None or read >= self.budget:
            return None
        index = read // self.spacing
        return index if index > read_before // self.spacing else None
