"""A trial's process without a model: it writes the events that a real one would.

Usage: fake_trial.py BEHAVIOURS.json ATTEMPT_FOLDER. The behaviours map `arm/seed` to a list with
one word per attempt, the last of which also stands for all later attempts.
"""

import json
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from sweeper.records import (
    Artifact,
    Evaluation,
    Event,
    Outcome,
    Phase,
    PhaseBegun,
    Reason,
    Started,
    Stop,
    Update,
    encode,
)

WINDOWS = 4
NAN = float("nan")


class FakeTrial:
    def __init__(self, folder: Path) -> None:
        self.spec = json.loads((folder / "spec.json").read_text())
        self.folder = folder
        self.events = (folder / "events.jsonl").open("a", encoding="utf-8")
        self.sequence = 0
        self.interrupted = False
        signal.signal(signal.SIGTERM, self.interrupt)

    def interrupt(self, _number, _frame) -> None:
        self.interrupted = True

    def emit(self, record) -> None:
        self.sequence += 1
        event = Event(sequence=self.sequence, at=datetime.now(UTC), record=record)
        self.events.write(encode(event) + "\n")
        self.events.flush()

    def start(self) -> None:
        self.emit(PhaseBegun(phase=Phase.LOADING))
        self.emit(
            Started(
                initial_digest="d0",
                trainable_parameters=3,
                adapted_modules=("q",),
                environment={"micro_batch": "1", "deterministic": "yes"},
            )
        )

    def evaluate(self, index: int, read: int, loss: float) -> None:
        self.emit(
            Evaluation(
                split="validation",
                index=index,
                target_tokens_read=read,
                updates=index * WINDOWS,
                loss=loss,
                target_tokens=10,
                records=2,
                set_digest="s0",
                dtype="float32",
                micro_batch=1,
                seconds=0.0,
            )
        )

    def update(self, window: int) -> None:
        each = self.spec["budget_target_tokens"] // WINDOWS
        self.emit(
            Update(
                window=window,
                updates=window,
                first_record=window - 1,
                records=1,
                record_digest=f"r{window}",
                target_tokens=each,
                target_tokens_read=window * each,
                target_tokens_applied=window * each,
                input_tokens=2 * each,
                padding_tokens=0,
                learning_rate=self.spec["training"]["learning_rate"],
                loss=4.0 - 0.5 * window,
                gradient_norm=1.0,
                clipped=False,
                ran=True,
                skip=None,
                seconds=0.01,
                peak_memory_bytes=1,
            )
        )

    def train(self, windows: int = WINDOWS) -> None:
        self.evaluate(0, 0, 4.0)
        for window in range(1, windows + 1):
            self.update(window)

    def save(self) -> None:
        (self.folder / "adapter").mkdir()
        self.emit(Artifact(kind="adapter", path="adapter", sha256="a0"))

    def end(self, reason: Reason, detail: str, status: int = 0) -> int:
        self.emit(Outcome(reason=reason, detail=detail))
        os.fsync(self.events.fileno())
        return status

    def complete(self, validation_loss: float = 2.5) -> int:
        self.start()
        self.train()
        self.evaluate(1, self.spec["budget_target_tokens"], validation_loss)
        self.save()
        return self.end(Reason.BUDGET_REACHED, "read the whole budget")

    def stop(self) -> int:
        self.start()
        self.train(2)
        self.emit(
            Stop(
                reason=Reason.DIVERGED,
                detail="rose by 2 nats",
                window=2,
                updates=2,
                target_tokens_read=20,
                last_finite_loss=3.0,
            )
        )
        return self.end(Reason.DIVERGED, "rose by 2 nats")

    def code_error(self) -> int:
        self.emit(PhaseBegun(phase=Phase.LOADING))
        return self.end(Reason.CODE_ERROR, "KeyError: 'q_proj'", status=1)

    def late_error(self) -> int:
        self.start()
        self.train(2)
        return self.end(Reason.CODE_ERROR, "ValueError: late", status=1)

    def killed(self) -> int:
        self.start()
        self.train(2)
        os.kill(os.getpid(), signal.SIGKILL)
        return 1

    def late_kill(self) -> int:
        time.sleep(0.5)
        return self.killed()

    def nan_result(self) -> int:
        return self.complete(validation_loss=NAN)

    def no_weights(self) -> int:
        self.start()
        self.train()
        self.evaluate(1, self.spec["budget_target_tokens"], 2.5)
        return self.end(Reason.BUDGET_REACHED, "read the whole budget")

    def garbled(self) -> int:
        self.start()
        self.train(2)
        self.events.write("not an event\n")
        return self.end(Reason.BUDGET_REACHED, "read the whole budget")

    def unhurried(self) -> int:
        self.start()
        time.sleep(0.7)
        self.evaluate(0, 0, 4.0)
        self.update(1)
        time.sleep(2.0)
        for window in range(2, WINDOWS + 1):
            self.update(window)
        self.evaluate(1, self.spec["budget_target_tokens"], 2.5)
        self.save()
        return self.end(Reason.BUDGET_REACHED, "read the whole budget")

    def slow(self) -> int:
        self.start()
        self.train(1)
        for _ in range(600):
            if self.interrupted:
                return self.end(Reason.PREEMPTED, "signal 15")
            time.sleep(0.05)
        return self.end(Reason.BUDGET_MISMATCH, "waited in vain", status=1)

    def stubborn(self) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.start()
        self.train(1)
        time.sleep(60)
        return 1


def end_without_parent() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(os.getpid(), signal.SIGKILL)


def main() -> int:
    behaviours = json.loads(Path(sys.argv[1]).read_text())
    threading.Thread(target=end_without_parent, daemon=True).start()
    trial = FakeTrial(Path(sys.argv[2]))
    words = behaviours.get(trial.spec["cell"], ["complete"])
    word = words[min(trial.spec["attempt"], len(words)) - 1]
    return getattr(trial, word)()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the watching thread sits in a read
