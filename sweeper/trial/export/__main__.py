"""`python -m sweeper.trial.export REQUEST ANSWER`: merges and verifies as the request asks.

Writes the answer and exits with 0. What the user can mend goes to standard output as JSON, exit
status 2; anything else ends in a traceback and 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sweeper.errors import UserError, as_plain
from sweeper.files import write_whole
from sweeper.trial.export.exporting import complete
from sweeper.trial.export.request import ExportRequest


def main(request: Path, answer: Path) -> int:
    """Returns the exit status; the answer appears whole or not at all."""
    try:
        found = complete(ExportRequest.read(request), tell=_tell)
    except UserError as error:
        sys.stdout.write(json.dumps(as_plain(error), allow_nan=False) + "\n")
        return 2
    write_whole(answer, found.to_json())
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
