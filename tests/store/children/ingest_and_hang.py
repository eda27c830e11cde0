"""Stores the events on its standard input, and hangs in the middle of the transaction."""

from __future__ import annotations

import sys

from gate import say

from sweeper.records import decode
from sweeper.store.database import Database
from sweeper.store.ingest import store_events
from sweeper.store.recovery import live_attempts
from sweeper.store.schema import check_schema

database = Database.for_writing(sys.argv[1], check_schema)
claim = database.read(live_attempts)[0].claim
say("ready")
line = sys.stdin.readline()


def store_and_hang(connection) -> None:
    store_events(connection, claim, [decode(line)])
    say("stored")
    sys.stdin.readline()


database.write(store_and_hang)
