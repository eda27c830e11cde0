"""The template of a slot's trials: `python -m sweeper.trial.warm SPEC`.

It loads what a trial loads, runs none of it, and forks into a trial whenever its supervisor asks.
Standard input is a socket to the supervisor, a JSON object per packet:

    {"ready": true}  or  {"unfit": why}                    once, when it has loaded
    {"folder": …, "argv": […], "environment": {…}}         asks for a trial; its standard input,
                                                           output and error come along
    {"pid": …}  or  {"error": why}                         the answer

A fork is handed over to the supervisor (see `process_tree.adopt_orphans`) and does what
`python -m sweeper.trial FOLDER` does, in a session of its own, with the same appearance. The
template ends with its supervisor. It does not outlive a change of code: a supervisor starts it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sweeper.study.spec import TrialSpec
from sweeper.trial import main as trial
from sweeper.trial.appearance import appear_as

PACKET_BYTES = 1 << 18
_PR_SET_PDEATHSIG = 1
_STREAMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A trial that is asked for.

    Attributes:
        argv: The command line that it stands for.
        environment: Added to the template's own.
        streams: Descriptors of standard input, output and error; ours to close.
    """

    folder: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    streams: tuple[int, ...]

    @classmethod
    def receive(cls, channel: socket.socket) -> Self | None:
        """Waits for the next request; None when the supervisor is gone."""
        packet, streams, _, _ = socket.recv_fds(channel, PACKET_BYTES, _STREAMS)
        if not packet:
            return None
        asked = json.loads(packet)
        return cls(
            folder=asked["folder"],
            argv=tuple(asked["argv"]),
            environment=asked["environment"],
            streams=tuple(streams),
        )

    def close(self) -> None:
        """Closes the descriptors that came along."""
        for stream in self.streams:
            os.close(stream)


def main(arguments: list[str] | None = None) -> int:
    """Serves until the supervisor is gone; in each fork, carries out its attempt."""
    parser = argparse.ArgumentParser(prog="python -m sweeper.trial.warm")
    parser.add_argument("spec", type=Path, help="of a trial like those to come")
    file = parser.parse_args(arguments).spec
    channel = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    _end_with_parent()
    if _is_left_alone(channel):
        return 1
    try:
        appear_as(sys.orig_argv, os.environ)  # every fork will have to
        unfit = _load(file)
    except OSError as error:
        unfit = str(error)
    _answer(channel, {"ready": True} if unfit is None else {"unfit": unfit})
    if unfit is not None:
        return 1
    request = _serve(channel)
    return 0 if request is None else trial.main([request.folder])


def _load(file: Path) -> str | None:
    """Returns why it is of no use as a template, or None."""
    # After the parent is watched: importing torch takes many seconds.
    from sweeper.trial.preload import load_architecture, why_unfit  # noqa: PLC0415

    load_architecture(TrialSpec.read(file).model)
    gc.freeze()  # what all forks share is left alone by their collectors
    return why_unfit()


def _serve(channel: socket.socket) -> Request | None:
    """Returns in every fork what it is to do, and in the template None, at its end."""
    while (request := Request.receive(channel)) is not None:
        said = _fork(request, channel)
        if said is None:
            return request
        request.close()
        channel.send(said)
    return None


def _fork(request: Request, channel: socket.socket) -> bytes | None:
    """Returns the answer to the supervisor; None in the trial, which has told it to the template.

    The process between the two ends at once, so that the trial falls to the supervisor, which
    alone can be told how it ends.
    """
    reading, writing = os.pipe()
    try:
        between = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return _packet({"error": str(error)})
    if between == 0:
        os.close(reading)
        _take_place(request, channel, writing)
        return None
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(between, 0)
    return said or _packet({"error": "the fork ended before it began"})


def _take_place(request: Request, channel: socket.socket, writing: int) -> None:
    """Returns in the trial alone, in its place; says the process id, or what is in the way."""
    try:
        if os.fork() > 0:
            os._exit(0)
        channel.close()
        _become(request)
    except OSError as error:
        os.write(writing, _packet({"error": str(error)}))
        os._exit(1)
    os.write(writing, _packet({"pid": os.getpid()}))
    os.close(writing)


def _become(request: Request) -> None:
    """Gives this process the surroundings in which `Popen` would have started the trial.

    Raises:
        OSError: The operating system refuses.
    """
    os.setsid()
    here = os.getcwd()  # noqa: PTH109 - as it stands in the path
    os.chdir(request.folder)
    sys.path[:] = [request.folder if place == here else place for place in sys.path]
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
    request.close()
    os.environ.update(request.environment)
    sys.argv = [str(Path(trial.__file__).with_name("__main__.py")), request.folder]
    sys.orig_argv = list(request.argv)
    appear_as(request.argv, os.environ)


def _end_with_parent() -> None:
    """Kills this process when its parent dies, however early.

    The signal fires on the death of the thread that started us; a supervisor has one. Forks do
    not inherit it: trials watch their pipe.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _is_left_alone(channel: socket.socket) -> bool:
    """Says whether the parent died before it was watched."""
    poll = select.poll()
    poll.register(channel, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _answer(channel: socket.socket, message: dict[str, object]) -> None:
    channel.send(_packet(message))


def _packet(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode("utf-8")


if __name__ == "__main__":
    sys.exit(main())
