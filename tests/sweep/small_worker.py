"""A worker process on a small study: small_worker.py FOLDER LEASE_SECONDS GRACE_SECONDS.

It tells what it is told, a line each, on standard error.
"""

import sys

from small_study import SmallStudy

from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.stop_request import StopRequest, listening


class Lines:
    """An observer that writes lines."""

    def slot_started(self, *, slot, cell, attempt):
        self.message(f"{cell} attempt {attempt} started on {slot}")

    def progress(self, progress):
        pass

    def trial_ended(self, *, slot, cell, outcome):
        self.message(f"{cell} ended on {slot} as {outcome.reason}")

    def message(self, text):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def main():
    folder, seconds, grace_seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    lease = LeaseTerms(seconds=seconds, kill_grace_seconds=grace_seconds)
    with listening(StopRequest()) as stop:
        return SmallStudy(folder).run(joins=True, lease=lease, stop=stop, observer=Lines()).status


if __name__ == "__main__":
    sys.exit(main())
