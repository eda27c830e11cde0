"""Random order, but whole studies first: no core waits for them at the end. A PostgreSQL server."""

import contextlib
import fcntl
import gc
import importlib.util
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

gc.disable()  # what is imported and collected stays: there is nothing to look for until then


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Properties are tried on fewer examples in the inner loop."""
    if config.getoption("--hypothesis-profile") == "quick":
        from hypothesis import settings

        settings.register_profile("quick", max_examples=20)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Sorts stably: the random order is kept on both sides."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("every_database") and "url" in metafunc.fixturenames:
        both = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
        metafunc.parametrize("url", both, indirect=True)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs an NVIDIA GPU")


@pytest.fixture(scope="session")
def recorded_studies():
    """The module that puts studies on record; see `recorded_studies.py`."""
    return _of_reports("recorded_studies")


@pytest.fixture(scope="session")
def decided_studies(recorded_studies, made_once):
    """The module that puts a study with an answer on record, and a place with one; to be copied."""
    recorded, decided = recorded_studies, _of_reports("decided_studies")
    place = made_once("decided", lambda place: decided.decided(place, recorded))
    return decided, recorded, place


@pytest.fixture
def decided(decided_studies, tmp_path):
    """A study of two arms and five seeds whose trials are completed; see `decided_studies.py`."""
    module, recorded, place = decided_studies
    copy = tmp_path / "decided"
    shutil.copytree(place, copy)
    return module.Decided(copy, recorded)


@pytest.fixture(scope="session")
def frozen_place(decided_studies, made_once):
    """A place with the same study once its choice is frozen; to be copied."""
    from sweeper.cli.main import main

    def freeze(place):
        shutil.copytree(decided_studies[2], place, dirs_exist_ok=True)
        with pytest.raises(SystemExit) as end:
            main(["select", str(place / "study.yaml")])
        assert end.value.code == 0

    return made_once("frozen", freeze)


@pytest.fixture
def frozen(decided_studies, frozen_place, tmp_path):
    """A study whose choice, half, is frozen."""
    module, recorded, _ = decided_studies
    copy = tmp_path / "frozen"
    shutil.copytree(frozen_place, copy)
    return module.Decided(copy, recorded)


@pytest.fixture
def founded_only(decided_studies, tmp_path):
    """The same study before its first trial."""
    module, recorded, _ = decided_studies
    return module.found(tmp_path, recorded)


@pytest.fixture(scope="session")
def earlier_choices():
    """The module that writes run folders with a frozen choice; see `earlier_choices.py`."""
    return _loaded(Path(__file__).parent / "study" / "earlier_choices.py")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Returns a folder that all processes of this test run share, made by the first to ask."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder_of(name, make):
        place, whole = shared / name, shared / f"{name}.whole"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not whole.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                make(place)
                whole.touch()
        return place

    return folder_of


def _of_reports(name):
    return _loaded(Path(__file__).parent / "report" / f"{name}.py")


def _loaded(program):
    name = f"shared_{program.parent.name}_{program.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, program)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


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

    def by_way_of(self, port: int, url: str) -> str:
        """The same URL with the port of something that stands before the server."""
        return url.replace(f":{self.port}/", f":{port}/")

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


@pytest.fixture(scope="session")
def slurm():
    """A running Slurm of two nodes for the tests of this process, see `slurm_cluster.py`."""
    with engine_of_tests("slurm_cluster").SlurmCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ray():
    """A running Ray of two nodes for the tests of this process, see `ray_cluster.py`."""
    with engine_of_tests("ray_cluster").RayCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def dask():
    """A running Dask of two workers for the tests of this process, see `dask_cluster.py`."""
    with engine_of_tests("dask_cluster").DaskCluster() as cluster:
        yield cluster


def engine_of_tests(name: str):
    """Returns the module that starts the engine; skips the test where that is impossible."""
    program = Path(__file__).parent / "engines" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if (reason := module.why_not()) is not None:
        pytest.skip(reason)
    return module


class Line:
    """A line to a server of this host, which can be cut at a COMMIT.

    Attributes:
        cut_at: How many commits from now it is cut, 1 being the next; None for never.
        delivers: Whether the server gets that commit, so that only the answer is lost. If not, the
            server's session stays as it is: nobody tells it that its client is gone.
        cuts: How often it was cut.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self.port = self._listener.getsockname()[1]
        self.cut_at: int | None = None
        self.delivers = True
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                self._sockets += [client, server]
                answers = threading.Thread(target=_carry, args=(server, client), daemon=True)
                answers.start()
                asks = threading.Thread(target=self._ask, args=(client, server), daemon=True)
                asks.start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := client.recv(65536):
                if b"COMMIT\0" in request and self._is_cut():
                    client.shutdown(socket.SHUT_RDWR)
                    if self.delivers:
                        server.sendall(request)
                    return
                server.sendall(request)
            server.shutdown(socket.SHUT_WR)

    def _is_cut(self) -> bool:
        with self._lock:
            if self.cut_at is None:
                return False
            self.cut_at -= 1
            if self.cut_at > 0:
                return False
            self.cut_at, self.cuts = None, self.cuts + 1
            return True


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # as when the server ends while it is being asked
        while answer := source.recv(65536):
            target.sendall(answer)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def line(postgres):
    """A line to the server that can be cut; `line.port` is where it begins."""
    made = Line(postgres.port)
    yield made
    made.close()


@pytest.fixture(scope="session")
def on_host():
    """Returns the words before a command that let it run under the name of another host."""
    mapped = () if os.geteuid() == 0 else ("--map-root-user",)
    apart = ("unshare", "--uts", *mapped, "sh", "-c", 'hostname "$0" && exec "$@"')

    def words(name: str) -> list[str]:
        return [*apart, name]

    try:
        tried = subprocess.run([*words("elsewhere"), "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs unshare (Debian: util-linux)")
    if tried.returncode != 0:
        pytest.skip(f"the system lets nobody take another host name: {tried.stderr.decode()}")
    return words
