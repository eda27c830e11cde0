"""Random order, but whole studies first: no core waits for them at the end. A PostgreSQL server."""

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import torch


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Sorts stably: the random order is kept on both sides."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("every_database") and "url" in metafunc.fixturenames:
        both = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
        metafunc.parametrize("url", both, indirect=True)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")


class PostgresServer:
    """A PostgreSQL of its own in a temporary folder, on a free port of this host.

    PostgreSQL refuses to run as root, so root starts it as the user `postgres`.
    """

    USER = "sweeper"
    PASSWORD = "p@ss:w/rd%1 ${x}"

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._schemas = itertools.count(1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        """The database without a schema of its own; the password is in it."""
        return f"postgresql+psycopg://{self.USER}:{quote(self.PASSWORD, safe='')}@{self.place}"

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}/postgres"

    def new_schema_url(self) -> str:
        """The database with a schema that nobody else uses; it is not made yet."""
        name = f'"sweeper_test-{next(self._schemas)}"'
        return f"{self.url}?options={quote(f'-csearch_path={name}', safe='')}"

    def create(self) -> None:
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        secret = self._folder / "password"
        secret.write_text(self.PASSWORD, encoding="utf-8")
        secret.chmod(0o644)
        cluster = str(self._folder / "cluster")
        self._call("initdb", "-U", self.USER, "-A", "scram-sha-256", f"--pwfile={secret}", cluster)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
        options += "-c fsync=off -c max_connections=200"
        log = str(self._folder / "server.log")
        self._call("pg_ctl", "-D", str(self._folder / "cluster"), "-o", options, "-l", log, "start")

    def stop(self) -> None:
        self._call("pg_ctl", "-D", str(self._folder / "cluster"), "-m", "immediate", "stop")

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Runs the statement as another user of the database would."""
        with psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.USER,
            password=self.PASSWORD,
            dbname="postgres",
            autocommit=True,
        ) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def end_sessions(self) -> int:
        """Kills every other session of the server; returns how many."""
        ended = self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(ended)

    def _call(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=True,
        )


def postgres_programs() -> Path | None:
    """Returns the folder with PostgreSQL's programs, the newest of several."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda file: int(file.parts[-3])).parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).parent


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL for the tests of this process; stopped at the end."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's programs (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(programs, folder)
    try:
        server.create()
        server.start()
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
