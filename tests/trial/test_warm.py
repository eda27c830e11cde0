"""Trials forked from the real template, beside ones that load everything themselves."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from waiting import within

from sweeper.records import Notice, PhaseBegun, decode
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot

pytestmark = pytest.mark.slow

SLOT = Slot(name="cpu 1", device=None)
SITE = """
import sys

if any(word.startswith("sweeper.trial") for word in sys.orig_argv):
    import sys
    sys.path.insert(0, {here!r})
    import state_of_a_trial
"""
"""Runs when an interpreter starts; see `state_of_a_trial.py`."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(SITE.format(here=str(Path(__file__).parent)))
    return folder


@pytest.fixture(scope="module")
def runs(bench, site, tmp_path_factory):
    """Two forks of one template, one after the other, and a cold trial, of the same spec."""
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PYTHONPATH", str(site))
        scratch = tmp_path_factory.mktemp("runs")
        notices = []
        warm, cold = (
            stack.enter_context(contextlib.closing(launcher))
            for launcher in (
                LocalLauncher(logs=scratch / "warm", tell=notices.append),
                LocalLauncher(logs=scratch / "cold", warm=False),
            )
        )
        folders = {name: attempt_in(scratch / name, bench) for name in ("first", "second", "cold")}
        aside = cold.start(folders["cold"], SLOT, TrialLimits())
        until_it_ends(warm.start(folders["first"], SLOT, TrialLimits()))
        until_it_ends(warm.start(folders["second"], SLOT, TrialLimits()))
        until_it_ends(aside)
    assert notices == []
    return folders


def attempt_in(path, bench):
    path.mkdir()
    folder = AttemptFolder(path)
    folder.spec.write_text(bench.spec(budget=200).to_json(), encoding="utf-8")
    return folder


def until_it_ends(running):
    supervision = within(120, running.poll)
    assert (supervision.exit_status, supervision.signal) == (0, None), supervision.stderr_tail
    return supervision


def records_of(folder):
    """All that was said, in order, without what is measured in seconds and bytes."""
    records = [decode(line).record for line in folder.events.read_text("utf-8").splitlines()]
    return [untimed(record) for record in records if not isinstance(record, PhaseBegun | Notice)]


def untimed(record):
    plain = {name: getattr(record, name) for name in type(record).__slots__}
    measured = {"seconds", "peak_memory_bytes", "wall_seconds", "phase_seconds", "path"}
    return type(record).__name__, {n: v for n, v in plain.items() if n not in measured}


def state_of(folder):
    text = (folder.path / "state.json").read_text()
    return json.loads(text.replace(str(folder.path), "FOLDER"))


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_forked_trial_equals_a_cold_one_in_every_bit(runs, name):
    warm, cold = records_of(runs[name]), records_of(runs["cold"])
    weights = [
        (runs[which].adapter / "adapter_model.safetensors").read_bytes() for which in (name, "cold")
    ]

    assert sum(kind == "Update" for kind, _ in cold) > 5
    assert warm == cold
    assert weights[0] == weights[1]


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_forked_trial_begins_to_train_in_the_state_of_a_cold_one(runs, name):
    assert state_of(runs[name])["forked"]
    assert state_of(runs[name]) | {"forked": False} == state_of(runs["cold"])
