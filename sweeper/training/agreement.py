"""Whether all ranks are at the same window with the same weights.

They are by construction: each makes the same update from the same sums. Where something below this
program breaks that promise, numbers would go on looking sound; so it is looked at before the first
window, at every checkpoint and at the end.
"""

from __future__ import annotations

from collections import Counter

import torch

from sweeper.training.ranks import Ranks
from sweeper.training.snapshot import Snapshot, State, restore
from sweeper.training.trainable import digest


class RanksDisagree(Exception):
    """Ranks hold other weights, or are at another window, than the rest."""


def begin_together(
    state: State, resume: Snapshot | None, ranks: Ranks, device: torch.device
) -> None:
    """Puts the state to where the snapshot was taken, if there is one, on all ranks alike.

    Raises:
        RanksDisagree: Some rank is not where the others are.
    """
    if resume is not None:
        restore(resume, state, ranks, device)
    require_agreement(state, ranks)


def require_agreement(state: State, ranks: Ranks) -> None:
    """Compares the trainable tensors and the ledger of all ranks, which all have to call it.

    The state that most ranks share counts as right; of two equally frequent ones, rank 0's.

    Raises:
        RanksDisagree: Some rank's are not the others', to the bit; it is named.
    """
    if ranks.count == 1:
        return
    exposure = state.exposure
    place = f"window {exposure.windows}, update {exposure.updates}"
    own = f"{place}, records {exposure.record_digest[:12]}, weights {digest(state.tensors)}"
    states = [content.decode() for content in ranks.gather(own.encode())]
    ((right, _),) = Counter(states).most_common(1)
    wrong = [f"rank {rank} ({held})" for rank, held in enumerate(states) if held != right]
    if wrong:
        raise RanksDisagree(f"{', '.join(wrong)} is not where the other ranks are ({right})")
