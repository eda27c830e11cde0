"""Sees the first free cell, waits at the gate, then takes it with or without the condition."""

from __future__ import annotations

import sys

from gate import myself, say, wait_at_the_gate
from sqlalchemy import true

from sweeper.store.claims import IS_FREE, Wanted, next_free, take
from sweeper.store.engine import open_engine

engine = open_engine(sys.argv[1])
condition = {"guarded": IS_FREE, "unguarded": true()}[sys.argv[2]]
with engine.begin() as connection:
    seen = next_free(connection, Wanted())
wait_at_the_gate()
with engine.begin() as connection:
    claim = take(connection, seen, myself(), "cpu0", free=condition)
if claim is not None:
    say(claim.cell)
engine.dispose()
