"""Claims the first cell of the database named by the first argument, if nobody has begun any."""

from __future__ import annotations

import sys

from gate import myself, say, wait_at_the_gate

from sweeper.store.store import StudyStore

with StudyStore.open(sys.argv[1]) as store:
    wait_at_the_gate()
    if (claim := store.claim(myself(), "cpu0", alone_after=0)) is not None:
        say(claim.cell)
