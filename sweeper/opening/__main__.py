"""`python -m sweeper.opening FOLDER`: carries out the opening that `request.json` asks for.

Writes `report.json` and exits with 0. What the user can mend goes into `refusal.json`, exit status
2; anything else ends in a traceback and 1. Standard input is a pipe from its supervisor: when that
closes, this process ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sweeper.errors import UserError, as_plain
from sweeper.files import write_whole
from sweeper.opening.folder import EvaluationFolder
from sweeper.opening.request import OpeningRequest
from sweeper.trial.interruption import end_without_parent


def main(folder: EvaluationFolder) -> int:
    """Returns the exit status; the report appears whole or not at all."""
    end_without_parent(sys.stdin.fileno())
    # After the watch is in place: importing torch takes many seconds.
    from sweeper.opening.examining import examine  # noqa: PLC0415

    try:
        report = examine(OpeningRequest.read(folder.request), folder, tell=_tell)
    except UserError as error:
        write_whole(folder.refusal, json.dumps(as_plain(error), allow_nan=False))
        return 2
    write_whole(folder.report, report.to_json())
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(EvaluationFolder(Path(sys.argv[1]).resolve())))
