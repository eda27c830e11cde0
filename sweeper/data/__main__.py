"""`python -m sweeper.data REQUEST.json OUT_FOLDER`: prepares data in a process of its own.

What a user can mend goes to standard output as JSON with exit status 2; progress goes to standard
error; anything else is a traceback there, with exit status 1.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from sweeper.data.preparing import prepare
from sweeper.data.request import PrepareRequest
from sweeper.errors import UserError, as_plain


def main(arguments: list[str]) -> int:
    """Answers one request; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    request, out = arguments
    try:
        prepare(PrepareRequest.read(Path(request)), Path(out))
    except UserError as error:
        sys.stdout.write(json.dumps(as_plain(error), allow_nan=False) + "\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
