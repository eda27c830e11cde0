"""A study handed to a real Slurm, Ray or Dask ends as on this host, to the bit."""

import contextlib
import json
import signal

import pytest

import sweeper

pytestmark = pytest.mark.slow

SETTINGS = {"arms": "{half: 0.5, baseline: 1, double: 2}", "seeds": "[0]", "budget": 400}
LAUNCHERS = {
    "slurm": "{{kind: slurm, sbatch: {{cpus_per_task: 1}}}}",
    "ray": "{{kind: ray, address: '{address}', cpus: 1}}",
    "dask": "{{kind: dask, address: '{address}'}}",
}
COMPARED = ["trial", "outcome", "initial_loss", "validation_loss", "retention_loss", "updates"]


@pytest.fixture(scope="module")
def local(tmp_path_factory, tiny_model, set_up):
    """The same study, run on this host."""
    laboratory = set_up(tmp_path_factory.mktemp("local"), tiny_model, **SETTINGS, slots="[cpu]")
    laboratory.sweeper("run", str(laboratory.study))
    return results(laboratory)


def results(laboratory):
    """Endpoints, every window's loss and the digests of the final weights."""
    trials = sweeper.trials(laboratory.study)[COMPARED].to_dict("records")
    updates = sweeper.updates(laboratory.study).groupby("trial")["loss"].apply(list).to_dict()
    attempts = sweeper.attempts(laboratory.study)
    weights = attempts[attempts["outcome"] == "completed"].set_index("trial")["adapter_sha256"]
    return trials, updates, weights.to_dict()


@contextlib.contextmanager
def on(kind, laboratory, request, monkeypatch):
    """Lets the study of the laboratory run on a cluster; nothing of it is left there at the end."""
    cluster = request.getfixturevalue(kind)
    for name, value in cluster.environ.items():
        monkeypatch.setenv(name, value)
    launcher = LAUNCHERS[kind].format(address=getattr(cluster, "address", ""))
    text = laboratory.study.read_text().replace("  slots: [cpu, cpu]", f"  launcher: {launcher}")
    laboratory.study.write_text(text)
    yield
    assert laboratory.processes() == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["ray", "dask"])
def test_three_cells_on_an_engine_have_the_local_launchers_losses_bit_for_bit(
    kind, laboratory, local, request, monkeypatch
):
    there = laboratory(**SETTINGS)

    with on(kind, there, request, monkeypatch):
        there.sweeper("run", str(there.study))

    assert results(there) == local


def running_jobs(laboratory):
    """The attempts whose trials have reported something and have not ended."""
    begun = laboratory.run_folder.glob("trials/*/attempts/*/events.jsonl")
    return [file.parent for file in begun if not (file.parent / "supervision.json").exists()]


def test_jobs_of_a_killed_coordinator_go_on_and_the_next_run_takes_them_up(
    laboratory, local, request, monkeypatch
):
    there = laboratory(**SETTINGS)

    with on("slurm", there, request, monkeypatch):
        coordinator = there.start("run", str(there.study))
        (attempt, *_) = there.wait_for(lambda: running_jobs(there))
        coordinator.send_signal(signal.SIGKILL)
        coordinator.wait()
        survived = not (attempt / "supervision.json").exists()
        done = there.sweeper("run", str(there.study))

    assert survived
    assert "goes on" in done.stderr
    assert results(there) == local
    attempts = sweeper.attempts(there.study)
    assert attempts["attempt"].tolist() == [1, 1, 1]  # none was started a second time
    taken_up = json.loads((attempt / "claim.json").read_text())["claim"]
    assert taken_up["fencing_number"] == 2
    assert coordinator.pid not in set(attempts["pid"])
