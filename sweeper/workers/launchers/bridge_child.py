"""The other side of `bridge`: `python -m sweeper.workers.launchers.bridge_child`.

It reads questions from standard input, one JSON object a line, and answers them in their order on
standard output, by the same `number`. The first names the engine and its options. When standard
input closes, the coordinator is gone or is done: it leaves, whatever it is waiting for.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sweeper.errors import SweeperError, as_plain
from sweeper.study.run_options import DaskLauncher, RayLauncher
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.dask import connected_to_dask
from sweeper.workers.launchers.engine import Engine
from sweeper.workers.launchers.ray import connected_to_ray
from sweeper.workers.messages import Message, MessageReader, send

_log = logging.getLogger(__name__)

LEAVE_SECONDS = 3.0
"""For the question in hand, and for the connection to be given back."""


def connected(hello: Message) -> Engine:
    """Returns the engine that the coordinator named.

    Raises:
        UserError: Its package is not installed, or there is no cluster.
    """
    if hello["kind"] == "ray":
        return connected_to_ray(RayLauncher.model_validate(hello["options"]))
    return connected_to_dask(DaskLauncher.model_validate(hello["options"]))


def answer(engine: Engine, asked: Message) -> Message:
    """Returns what the engine answers; `error` in it where it does not, or refuses."""
    try:
        return _ANSWERS[str(asked["ask"])](engine, asked)
    except Exception as error:  # noqa: BLE001 - a process boundary: the other side is told
        _log.exception("%s", asked)
        is_refused = isinstance(error, TypeError | ValueError)
        return {"error": f"{type(error).__name__}: {error}", "is_refused": is_refused}


def _submit(engine: Engine, asked: Message) -> Message:
    argv = asked["argv"]
    assert isinstance(argv, list)
    folder = AttemptFolder(Path(str(asked["folder"])))
    command = tuple(str(part) for part in argv)
    return {"job": engine.submit(name=str(asked["name"]), folder=folder, command=command)}


def _look(engine: Engine, asked: Message) -> Message:
    job = engine.look(str(asked["job"]))
    return {"state": job.state.value, "detail": job.detail}


def _find(engine: Engine, asked: Message) -> Message:
    return {"job": engine.find(str(asked["name"]))}


def _cancel(engine: Engine, asked: Message) -> Message:
    engine.cancel(str(asked["job"]))
    return {}


_ANSWERS: dict[str, Callable[[Engine, Message], Message]] = {
    "submit": _submit,
    "look": _look,
    "find": _find,
    "cancel": _cancel,
}


def serve(questions: queue.SimpleQueue[Message | None], answers: int) -> None:
    """Connects, and answers until the questions end."""
    hello = questions.get()
    if hello is None:
        return
    try:
        engine = connected(hello)
    except SweeperError as error:
        send(answers, {"number": hello["number"], "fault": as_plain(error)})
        return
    send(answers, {"number": hello["number"]})
    while (asked := questions.get()) is not None:
        send(answers, answer(engine, asked) | {"number": asked["number"]})
    engine.close()


def _listen(descriptor: int, questions: queue.SimpleQueue[Message | None]) -> None:
    reader = MessageReader(descriptor)
    while not reader.closed:
        for asked in reader.read(timeout_seconds=3600):
            questions.put(asked)
    questions.put(None)
    last = threading.Timer(LEAVE_SECONDS, os._exit, args=(0,))
    last.daemon = True
    last.start()


def main() -> None:
    """Serves standard input and output; whatever else is printed goes to standard error."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    questions: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.fileno(), questions), daemon=True).start()
    serve(questions, answers)


if __name__ == "__main__":
    main()
