"""A real Slurm of two nodes on this host, each with fake GPUs, in a temporary folder.

Debian's programs, started in the foreground as our own children: no systemd, no accounting
database, a munge of its own, free ports. Nodes are told apart by name and port.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psutil
from waiting import within

from sweeper.trial.folder import AttemptFolder

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
NODES = ("n1", "n2")
CPUS = 8
GPUS = 2
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def why_not() -> str | None:
    """Says why none can be started here, or nothing."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]
    if missing:
        return f"needs {', '.join(missing)} (Debian: apt-get install slurmctld slurmd munge)"
    if os.geteuid() != 0:
        return "needs root: slurmd starts jobs for other users, and fake GPUs are device files"
    return None


class SlurmCluster:
    """Usage: `with SlurmCluster() as slurm:`, then Slurm's commands with `slurm.environ`.

    The partition `main` is the default; jobs of `urgent` end its jobs, after a grace.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.environ = {
            "PATH": _PATH,
            "HOME": "/root",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._configure()
            self._start_munge()
            self._start("slurmctld", "slurmctld", "-D", "-c")
            for node in NODES:
                self.start_node(node)
            self.wait_until_idle(*NODES)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every job, daemon and process of the cluster and removes its folder."""
        while left := self._processes():
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.02)
            for daemon in self._daemons.values():
                daemon.poll()
        for daemon in self._daemons.values():
            daemon.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *command: str, timeout_seconds: float = 30) -> str:
        """Runs one of Slurm's commands as a user would and returns what it says."""
        return subprocess.run(
            command,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=True,
        ).stdout

    def start_node(self, node: str) -> None:
        """Starts the node's daemon, again after `kill_node`."""
        self._start(node, "slurmd", "-D", "-N", node)

    def kill_node(self, node: str) -> None:
        """Cuts the node off: its daemon is gone, the processes of its jobs live on."""
        self._daemons[node].kill()
        self._daemons[node].wait()

    def give_up_node(self, node: str) -> None:
        """Says what the controller finds out by itself, when it has waited for the node."""
        self.call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=no answer")

    def stop_controller(self) -> None:
        """Stops the controller where it is: connections are taken, and never answered."""
        self._daemons["slurmctld"].send_signal(signal.SIGSTOP)

    def continue_controller(self) -> None:
        self._daemons["slurmctld"].send_signal(signal.SIGCONT)

    def job(self, job_id: str) -> dict[str, str]:
        """Returns what `scontrol show job` says, by field."""
        said = self.call("scontrol", "--oneliner", "show", "job", job_id)
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def node_of(self, folder: AttemptFolder) -> str:
        """Returns the node of the job that an attempt's folder names."""
        job_id = json.loads(folder.job.read_text("utf-8"))["id"]
        return self.job(job_id)["NodeList"]

    def wait_until_idle(self, *nodes: str, seconds: float = 90) -> None:
        log, states = self.folder / "slurmctld.log", []

        def are_idle() -> bool:
            states.append([self._state(node) for node in nodes])
            return set(states[-1]) == {"idle"}

        def seen() -> str:
            return f"{len(states)} looks, last {states[-5:]}\n{log.read_text('utf-8')[-5000:]}"

        within(seconds, are_idle, seen=seen)

    def _state(self, node: str) -> str:
        with contextlib.suppress(subprocess.SubprocessError):
            return self.call("sinfo", "-h", "-N", "-n", node, "-o", "%T").split()[0]
        return "unknown"

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                command,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _start_munge(self) -> None:
        place = self.folder / "munge"
        place.mkdir(mode=0o755)
        key = place / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        names = {"key-file": "key", "socket": "sock", "pid-file": "pid", "seed-file": "seed"}
        places = [f"--{option}={place / name}" for option, name in names.items()]
        self._start("munged", "munged", "--foreground", "--force", "--num-threads=1", *places)
        out = self.folder / "munged.out"
        within(20, (place / "sock").exists, seen=lambda: out.read_text("utf-8"))

    def _configure(self) -> None:
        self.folder.chmod(0o755)
        for name in ("state", "spool", *(f"spool/{node}" for node in NODES)):
            (self.folder / name).mkdir()
        gpus = []
        for node in NODES:
            for number in range(GPUS):
                device = self.folder / f"{node}-gpu{number}"
                os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            files = f"{self.folder}/{node}-gpu[0-{GPUS - 1}]"
            gpus.append(f"NodeName={node} Name=gpu Type=fake File={files}\n")
        (self.folder / "gres.conf").write_text("".join(gpus), "utf-8")
        plugin = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
        (self.folder / "cgroup.conf").write_text(plugin, "utf-8")
        (self.folder / "slurm.conf").write_text(self._slurm_conf(), "utf-8")

    def _slurm_conf(self) -> str:
        host, place = socket.gethostname().split(".")[0], self.folder
        controller, *ports = _free_ports(1 + len(NODES))
        nodes = "".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} "
            f"RealMemory=4000 Gres=gpu:fake:{GPUS} State=UNKNOWN\n"
            for node, port in zip(NODES, ports, strict=True)
        )
        return f"""\
ClusterName=sweep
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge/sock
CryptoType=crypto/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmctldParameters=preempt_send_user_signal
MpiDefault=none
ReturnToService=2
KillWait=3
MinJobAge=300
SlurmdTimeout=2
GresTypes=gpu
SlurmdParameters=config_overrides
{nodes}\
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF
"""

    def _processes(self) -> list[psutil.Process]:
        """Returns what still runs with the configuration of this cluster."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get("SLURM_CONF") == self.environ["SLURM_CONF"]
        except psutil.Error:
            return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
