"""Appends ten entries to the chain of the database named by the first argument."""

from __future__ import annotations

import os
import sys

from gate import say, wait_at_the_gate

from sweeper.selection.chain import EntryKind
from sweeper.store.store import StudyStore

with StudyStore.open(sys.argv[1]) as store:
    wait_at_the_gate()
    for number in range(10):
        link = store.chain.append(EntryKind.NOTE, {"process": os.getpid(), "note": number})
        say(str(link.number))
