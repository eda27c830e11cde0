"""A trial's process without a model: it writes the events that a real one would.

Where an earlier attempt has left a checkpoint, here no more than a folder, it goes on after it.

Usage: fake_trial.py BEHAVIOURS.json ATTEMPT_FOLDER. The behaviours map `arm/seed` to a list with
one word per attempt, the last of which also stands for all later attempts.
"""

import json
import math
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sweeper.records import (
    Artifact,
    CheckpointMade,
    Evaluation,
    Event,
    Notice,
    Outcome,
    Phase,
    PhaseBegun,
    Reason,
    Resumed,
    Started,
    Stop,
    Update,
    encode,
)
from sweeper.trial.ending import outcome_of
from sweeper.trial.surroundings import other_environment

WINDOWS = 4
NAN = float("nan")
HOSTILE = (
    "\0 \udce9 \x1b[31m\x1b]0;title\a [red]bold[/red] <script>alert(1)</script> \u202egnp.exe\r"
)


class FakeTrial:
    def __init__(self, folder: Path, gpus: Path | None = None) -> None:
        """`gpus` is a file that says what GPU a slot has, by CUDA_VISIBLE_DEVICES."""
        self.gpus = gpus
        self.spec = json.loads((folder / "spec.json").read_text())
        self.folder = folder
        self.events = (folder / "events.jsonl").open(
            "a", encoding="utf-8", errors="backslashreplace"
        )
        self.sequence = 0
        self.after_window = 0
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
        environment = {
            "device": self.device(),
            "micro_batch": "1",
            "ranks": str(self.spec["ranks"]),
            "deterministic": "yes",
        }
        if (unfit := other_environment(environment, self.spec["seed_environment"])) is not None:
            self.emit(unfit)
            sys.stdout.flush()
            os._exit(0)
        self.emit(
            Started(
                initial_digest="d0",
                trainable_parameters=3,
                adapted_modules=("q",),
                environment=environment,
                configuration={
                    "training.learning_rate": repr(self.spec["training"]["learning_rate"])
                },
            )
        )
        if (checkpoint := self.newest_checkpoint()) is not None:
            self.after_window = int(checkpoint.name)
            self.emit(
                Resumed(
                    after_window=self.after_window,
                    checkpoint=str(checkpoint),
                    sha256="c0",
                    differences=self.differences(checkpoint),
                )
            )

    def device(self) -> str:
        device = os.environ["CUDA_VISIBLE_DEVICES"]
        known = json.loads(self.gpus.read_text()) if self.gpus and self.gpus.exists() else {}
        return known.get(device, "a fake GPU") if device else "cpu"

    def newest_checkpoint(self) -> Path | None:
        earlier = self.spec["resume_from"]
        while earlier is not None:
            found = sorted(Path(earlier).glob("checkpoints/*"))
            if found:
                return found[-1]
            spec = Path(earlier) / "spec.json"
            if not spec.exists():  # on another host's disk
                break
            earlier = json.loads(spec.read_text())["resume_from"]
        return None

    def differences(self, checkpoint: Path) -> tuple[str, ...]:
        then = json.loads((checkpoint.parents[1] / "spec.json").read_text())["ranks"]
        now = self.spec["ranks"]
        return () if now == then else (f"ranks: {then} then, {now} now",)

    def checkpoint(self, window: int) -> None:
        path = f"checkpoints/{window:08d}"
        (self.folder / path).mkdir(parents=True)
        self.emit(PhaseBegun(phase=Phase.CHECKPOINTING, seconds={"training": 0.5}))
        self.emit(CheckpointMade(window=window, path=path, sha256="c0", size_bytes=1))

    def evaluate(self, index: int, read: int, loss: float) -> None:
        self.emit(
            Evaluation(
                split="validation",
                index=index,
                window=index * WINDOWS,
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
        if self.after_window == 0:
            self.evaluate(0, 0, 4.0)
        for window in range(self.after_window + 1, windows + 1):
            self.update(window)

    def save(self) -> None:
        (self.folder / "adapter").mkdir()
        self.emit(Artifact(kind="adapter", path="adapter", sha256="a0"))
        if self.spec["keep_best"]:
            (self.folder / "best").mkdir()
            self.emit(Artifact(kind="best", path="best", sha256="b0"))

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

    def better_when_lower(self) -> int:
        """0.1 nats for every halving of the rate, from 2.5 at 2e-4; seeds differ a little."""
        doublings = math.log2(self.spec["training"]["learning_rate"] / 2e-4)
        wobble = 0.001 * (self.spec["seed"] + 1) * (1 + doublings % 3)
        return self.complete(validation_loss=2.5 + 0.1 * doublings + wobble)

    def best_half_way(self) -> int:
        self.start()
        self.train()
        self.evaluate(1, self.spec["budget_target_tokens"] // 2, 2.0)
        self.evaluate(2, self.spec["budget_target_tokens"], 2.5)
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

    def code_error_when_told(self) -> int:
        """It is told by a file `go_on` beside that of the behaviours."""
        while not Path(sys.argv[1]).with_name("go_on").exists():
            time.sleep(0.05)
        return self.code_error()

    def late_error(self) -> int:
        self.start()
        self.train(2)
        return self.end(Reason.CODE_ERROR, "ValueError: late", status=1)

    def killed(self) -> int:
        self.start()
        self.train(2)
        os.kill(os.getpid(), signal.SIGKILL)
        return 1

    def killed_after_a_checkpoint(self) -> int:
        """One window more than it had when it began is saved, one more is lost."""
        self.start()
        self.train(self.after_window + 1)
        self.checkpoint(self.after_window + 1)
        self.update(self.after_window + 2)
        os.kill(os.getpid(), signal.SIGKILL)
        return 1

    def checkpoint_then_wait(self) -> int:
        self.start()
        self.train(1)
        self.checkpoint(1)
        time.sleep(60)
        return 1

    def device_error(self) -> int:
        self.start()
        self.train(1)
        return self.end(Reason.DEVICE_ERROR, "CUDA error: unspecified launch failure", status=1)

    def device_error_with_two_threads(self) -> int:
        """By which a test tells its slots apart."""
        if os.environ["OMP_NUM_THREADS"] == "2":
            return self.device_error()
        return self.complete()

    def limited(self) -> int:
        """A limit that a trial runs into by itself, as one does that finds no memory."""
        self.start()
        self.train(1)
        self.checkpoint(1)
        return self.end(Reason.WALL_CLOCK, "took longer than 1 h", status=1)

    def hostile(self) -> int:
        """Says by all the ways it has what no terminal, table or database should swallow."""
        os.write(1, HOSTILE.encode("utf-8", "surrogateescape"))
        os.write(2, HOSTILE.encode("utf-8", "surrogateescape"))
        self.start()
        self.emit(Notice(message=HOSTILE + "x" * 5_000_000))
        self.train(1)
        try:
            raise KeyError(HOSTILE + "y" * 5_000_000)  # noqa: TRY301
        except KeyError as error:
            self.emit(
                replace(outcome_of(error), evidence={HOSTILE: HOSTILE, "long": "z" * 5_000_000})
            )
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

    def unhurried_later(self) -> int:
        self.start()
        self.train(self.after_window + 1)
        time.sleep(2.0)
        for window in range(self.after_window + 2, WINDOWS + 1):
            self.update(window)
        self.evaluate(1, self.spec["budget_target_tokens"], 2.5)
        self.save()
        return self.end(Reason.BUDGET_REACHED, "read the whole budget")

    def slow(self) -> int:
        self.start()
        self.train(1)
        for _ in range(600):
            if self.interrupted:
                self.checkpoint(1)
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
    trial = FakeTrial(Path(sys.argv[2]), Path(sys.argv[1]).with_name("gpus.json"))
    words = behaviours.get(trial.spec["cell"], ["complete"])
    word = words[min(trial.spec["attempt"], len(words)) - 1]
    return getattr(trial, word)()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the watching thread sits in a read
