"""`python -m sweeper.training REQUEST.json OUT.json`: inspects a model for the plan.

Writes the report and exits with 0. What the user can mend goes to stdout as JSON, exit status 2;
anything else ends in a traceback and 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sweeper.errors import UserError, as_plain
from sweeper.files import write_whole
from sweeper.training.inspection import inspect
from sweeper.training.report import InspectionRequest


def main(request_file: Path, report_file: Path) -> int:
    """Returns the exit status; the report appears whole or not at all."""
    request = InspectionRequest.model_validate_json(request_file.read_bytes())
    try:
        report = inspect(request)
    except UserError as error:
        sys.stdout.write(json.dumps(as_plain(error), allow_nan=False) + "\n")
        return 2
    write_whole(report_file, report.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
