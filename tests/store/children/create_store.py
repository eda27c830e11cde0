"""Opens a database that may not be there yet, and claims its place in it."""

from __future__ import annotations

import sys

from gate import say, wait_at_the_gate

from sweeper.store.store import StudyStore

wait_at_the_gate()
with StudyStore.create(sys.argv[1]) as store:
    say(str(store.find_study()))
