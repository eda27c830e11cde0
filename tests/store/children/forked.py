"""Runs a script in several processes: forks of this one, which imports what the scripts need once.

Usage: forked.py SCRIPT DATABASE_URL PIPES [ARGUMENTS...]. PIPES names for each process the
descriptors that it reads and writes by: 3,4:5,6. The script gets the URL and the arguments.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback

from sqlalchemy import make_url

import sweeper.store.store

assert sweeper.store.store


def run(reading: int, writing: int) -> int:
    os.dup2(reading, sys.stdin.fileno())
    os.dup2(writing, sys.stdout.fileno())
    for each in descriptors:
        os.close(each)
    sys.argv = [script, url, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception:  # noqa: BLE001  # a fork ends here, whatever happened
        traceback.print_exc()
        return 1
    sys.stdout.flush()
    return 0


script, url, pipes, *arguments = sys.argv[1:]
make_url(url).get_dialect().import_dbapi()
pairs = [tuple(map(int, pair.split(","))) for pair in pipes.split(":")]
descriptors = [each for pair in pairs for each in pair]
children = []
for pair in pairs:
    child = os.fork()
    if child == 0:
        os._exit(run(*pair))
    children.append(child)
for each in descriptors:
    os.close(each)
statuses = [os.waitpid(child, 0)[1] for child in children]
sys.exit(any(statuses))
