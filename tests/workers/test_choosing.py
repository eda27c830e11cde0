from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil

from sweeper.study.run_options import DaskLauncher, RunOptions
from sweeper.workers.launchers import bridge
from sweeper.workers.launchers.choosing import launcher_for
from sweeper.workers.launchers.local import LocalLauncher

CHILD = (sys.executable, str(Path(__file__).parent / "bridged_engine.py"))


def test_a_study_that_names_no_launcher_runs_on_this_host(tmp_path):
    launcher = launcher_for(RunOptions(), tmp_path / "logs", environ=os.environ)

    with contextlib.closing(launcher):
        assert isinstance(launcher, LocalLauncher)


def test_the_librarys_process_is_not_told_the_databases_password(tmp_path, monkeypatch):
    monkeypatch.setattr(bridge, "_CHILD", CHILD)
    run = RunOptions(
        launcher=DaskLauncher(kind="dask", address="here"),
        storage="postgresql+psycopg://user:${STORE_WORD}@host/db",
    )
    environ = {**os.environ, "STORE_WORD": "hidden", "OTHER": "seen"}

    with contextlib.closing(launcher_for(run, tmp_path / "logs", environ=environ)):
        (child,) = [each for each in psutil.Process().children() if CHILD[1] in each.cmdline()]
        told = child.environ()

    assert told["OTHER"] == "seen"
    assert "STORE_WORD" not in told
