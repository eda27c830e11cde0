"""Stands in for a rank: does what `acts.json` in the attempt's folder says, without torch."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sweeper.records import Notice, Outcome, Phase, PhaseBegun, Reason
from sweeper.trial.ending import exit_status_of
from sweeper.trial.interruption import Interruption, end_without_parent
from sweeper.trial.rank_channel import Teller

SLEEP = "import time; time.sleep(600)"


class StandIn:
    """One method for each act; its name with spaces is what tests write."""

    def __init__(self, folder):
        self.folder = folder
        self.interruption = Interruption()
        self.interruption.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        end_without_parent(0)
        self.teller = Teller.on_standard_output()

    def tell(self, message):
        self.teller.tell(Notice(message=message))

    def turn(self, phase):
        self.teller.tell(PhaseBegun(phase=Phase(phase), seconds={}))

    def print(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, reason, error=None):
        evidence = {} if error is None else {"error": error, "traceback": "..."}
        self.teller.tell(Outcome(reason=Reason(reason), detail="so it is", evidence=evidence))

    def end(self, reason, error=None):
        self.say(reason, error)
        sys.exit(exit_status_of(Outcome(reason=Reason(reason), detail="")))

    def say_half_a_line(self):
        os.write(self.teller._descriptor, b'{"sequence": 1, "rec')

    def die_of(self, number):
        os.kill(os.getpid(), number)

    def leave(self, status):
        os._exit(status)

    def have_a_child(self):
        argv = [sys.executable, "-c", SLEEP, str(self.folder)]
        subprocess.Popen(argv, stdin=subprocess.DEVNULL)

    def wait_for_signal_15(self):
        while not self.interruption.is_asked():
            time.sleep(0.01)

    def hang(self):
        time.sleep(600)


def main():
    stand_in = StandIn(Path(sys.argv[1]))
    acts = json.loads((stand_in.folder / "acts.json").read_text())[int(sys.argv[2])]
    for act, *details in acts:
        getattr(stand_in, act.replace(" ", "_"))(*details)


if __name__ == "__main__":
    main()
