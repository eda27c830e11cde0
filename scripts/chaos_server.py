"""A PostgreSQL server of scripts/chaos.py's own, to be stopped, crashed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psycopg

USER = "chaos"
START_SECONDS = 60.0


class Server:
    """A server in a folder of its own, on a free port of this host; see `start`.

    PostgreSQL refuses to run as root, so root runs it as the user `postgres`.

    Args:
        folder: Does not exist yet; its parents can be entered by everybody.
    """

    def __init__(self, folder: Path) -> None:
        self._programs = programs()
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        folder.mkdir()
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._run("initdb", "-U", USER, "-A", "trust", "-D", str(folder / "cluster"))

    @property
    def url(self) -> str:
        """Of the database, as `run.storage` takes it."""
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Starts the server and returns when it takes connections.

        Raises:
            RuntimeError: It does not.
        """
        options = {
            "port": self._port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",  # processes crash here, the host does not
            "max_connections": 50,
            "shared_buffers": "32MB",
        }
        settings = [f"--{name}={value}" for name, value in options.items()]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self._folder / "cluster"), *settings],
                user=self._user,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        give_up = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > give_up or self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL does not start, see {self._folder / 'server.log'}")
            time.sleep(0.05)

    def stop(self, *, crash: bool = False) -> None:
        """Ends it: every session at once; a crash leaves the recovery to the next start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait()

    def end_sessions(self) -> int:
        """Kills every session of it; returns how many there were."""
        with self._connection() as connection:
            found = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            return len(found.fetchall())

    def _answers(self) -> bool:
        try:
            self._connection().close()
        except psycopg.OperationalError:
            return False
        return True

    def _connection(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host="127.0.0.1", port=self._port, user=USER, dbname="postgres", autocommit=True
        )

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )


def programs() -> Path:
    """Returns the folder with PostgreSQL's programs, the newest of several.

    Raises:
        FileNotFoundError: There are none.
    """
    found = [*Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if found:
        return max(found, key=lambda file: int(file.parts[-3])).parent
    on_path = shutil.which("postgres")
    if on_path is None:
        raise FileNotFoundError("PostgreSQL's programs are not here (apt-get install postgresql)")
    return Path(on_path).parent
