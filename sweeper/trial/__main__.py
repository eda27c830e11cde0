"""The entry of a trial's process."""

from __future__ import annotations

import sys

from sweeper.trial.main import main

if __name__ == "__main__":
    sys.exit(main())
