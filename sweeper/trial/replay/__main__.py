"""`python -m sweeper.trial.replay FOLDER`: carries out the replay that `request.json` asks for.

Writes `report.json` and exits with 0, whatever was found. What the user can mend goes to standard
output as JSON, exit status 2; anything else ends in a traceback and 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sweeper.errors import UserError, as_plain
from sweeper.files import write_whole
from sweeper.trial.replay.folder import ReplayFolder
from sweeper.trial.replay.replaying import replay
from sweeper.trial.replay.request import ReplayRequest


def main(folder: ReplayFolder) -> int:
    """Returns the exit status; the report appears whole or not at all."""
    try:
        report = replay(ReplayRequest.read(folder.request), folder, tell=_tell)
    except UserError as error:
        sys.stdout.write(json.dumps(as_plain(error), allow_nan=False) + "\n")
        return 2
    write_whole(folder.report, report.to_json())
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(ReplayFolder(Path(sys.argv[1]).resolve())))
