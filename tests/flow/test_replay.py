"""A trial that broke: its evidence, its replay, what becomes of it with one thing changed."""

import hashlib
import json

import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broken(tmp_path_factory, tiny_model, set_up):
    """`double` trains the whole model at rate 1.0 and diverges; the baseline completes."""
    study = set_up(
        tmp_path_factory.mktemp("broken"),
        tiny_model,
        tune="tune: full",
        clip="null",
        budget=400,
        every=50,
        rate="2e-3",
        arms="{baseline: 1, double: 500}",
        seeds="[0]",
        checkpoint="{windows: 1}",
    )
    study.sweeper("run", str(study.study))
    return study


def attempt_of(study, trial):
    return study.run_folder / "trials" / trial / "attempts" / "1"


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def replay(study, *arguments):
    return json.loads(study.sweeper("replay", str(study.study), *arguments, "--json").stdout)


def test_the_stop_has_left_its_evidence_and_it_is_on_record(broken):
    (row,) = (r for r in broken.rows("trials") if r["trial"] == "double/0")
    shown = json.loads(broken.sweeper("show", str(broken.study), "double/0", "--json").stdout)
    folder = broken.run_folder / shown["attempts"][0]["evidence_path"]

    anomaly = json.loads((folder / "anomaly.json").read_text("utf-8"))
    tokens = load_file(folder / "tokens.safetensors")
    assert anomaly["stop"]["reason"] == row["reason"] == "diverged"
    assert anomaly["window"] == row["windows"]
    assert len(anomaly["records"]) == 4
    assert all(tensor["gradient_norm"] is not None for tensor in anomaly["tensors"])
    assert sum(len(ids) for name, ids in tokens.items() if name.startswith("token_ids")) == sum(
        record["tokens"] for record in anomaly["records"]
    )
    checkpoint = attempt_of(broken, "double-0") / anomaly["checkpoint"]["path"]
    assert (checkpoint / "complete.json").is_file()


def test_the_replay_breaks_at_the_same_window_and_the_trial_stays_as_it_was(broken):
    (row,) = (r for r in broken.rows("trials") if r["trial"] == "double/0")
    before = tree(broken.run_folder / "trials")

    found = replay(broken, "double/0")

    assert found["verdict"] == "reproduced"
    assert (found["replayed"]["reason"], found["replayed"]["window"]) == (
        "diverged",
        row["windows"],
    )
    assert found["first_difference"] is None
    assert found["is_exact"] is True
    assert all(pair["is_equal"] for pair in found["windows"] + found["evaluations"])
    assert tree(broken.run_folder / "trials") == before


def test_with_a_sound_rate_it_does_not_break(broken):
    done = broken.sweeper(
        "replay", str(broken.study), "double/0", "--set", "training.learning_rate=2e-3"
    )

    assert "It does not reproduce with learning_rate 0.002: no diverged up to window" in done.stdout
    assert "Next: sweeper diagnose" in done.stderr


def test_a_completed_trial_reproduces_bit_for_bit_from_a_checkpoint(broken):
    found = replay(broken, "baseline/0", "--windows", "2")

    assert found["verdict"] == "identical"
    assert len(found["windows"]) == 2
    assert found["checkpoint"] is not None


def test_two_changes_are_refused_and_leave_nothing(broken):
    replays = broken.run_folder / "replays"
    before = sorted(replays.glob("*")) if replays.exists() else []

    done = broken.sweeper(
        "replay",
        str(broken.study),
        "double/0",
        "--set",
        "training.learning_rate=1e-3",
        "--set",
        "training.precision=bfloat16",
        expect=2,
    )

    assert "a replay changes one thing" in done.stderr
    assert (sorted(replays.glob("*")) if replays.exists() else []) == before


def test_the_diagnosis_names_the_symptom_and_a_check_that_runs(broken):
    found = json.loads(broken.sweeper("diagnose", str(broken.study), "double/0", "--json").stdout)

    symptoms = [finding["symptom"] for finding in found["findings"]]
    assert "rising_loss" in symptoms
    (guess,) = (g for g in found["guesses"] if g["symptom"] == "rising_loss")
    checked = json.loads(broken.sweeper(*guess["command"], "--json").stdout)
    assert checked["change"]["now"] == "0.5"
    healthy = json.loads(
        broken.sweeper("diagnose", str(broken.study), "baseline/0", "--json").stdout
    )
    assert healthy["findings"] == []
