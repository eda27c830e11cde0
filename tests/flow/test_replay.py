"""Trials that broke: the verdict, the evidence, the replay, what one change makes of it."""

import hashlib
import json

import pytest
from safetensors.numpy import load_file

from sweeper import trials
from sweeper.report.diagnosis import diagnose
from sweeper.report.history import history
from sweeper.report.symptoms import Symptom

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broken(tmp_path_factory, tiny_model, set_up):
    """`double` trains the whole model at rate 1.0 and diverges; the baseline completes.

    The run is done all the same.
    """
    study = set_up(
        tmp_path_factory.mktemp("broken"),
        tiny_model,
        tune="tune: full",
        clip="null",
        budget=400,
        every=50,
        rate="2e-3",
        arms="{baseline: 1, double: 500}",
        seeds="[0, 1]",
        slots="[cpu]",
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
    return json.loads(study.here("replay", str(study.study), *arguments, "--json").stdout)


def test_an_arm_that_is_stopped_in_every_seed_is_unstable_and_no_average_has_it(broken):
    rows = trials(broken.study).set_index("trial")

    assert rows.loc[["double/0", "double/1"], "outcome"].tolist() == ["stopped", "stopped"]
    assert rows["validation_loss"].isna().tolist() == [False, True, False, True]
    assert rows.loc[["double/0", "double/1"], "last_finite_loss"].notna().all()
    (double,) = broken.rows("compare")["arms"]
    assert double["verdict"]["label"] == "unstable:2/2"


def test_the_stop_has_left_its_evidence_and_it_is_on_record(broken):
    row = trials(broken.study).set_index("trial").loc["double/0"]
    (attempt,) = history(broken.study, "double/0").attempts
    folder = broken.run_folder / attempt["evidence_path"]

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
    row = trials(broken.study).set_index("trial").loc["double/0"]
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
    done = broken.here(
        "replay", str(broken.study), "double/0", "--set", "training.learning_rate=2e-3"
    )

    assert "It does not reproduce with learning_rate 0.002: no diverged up to window" in done.stdout
    assert "Next: sweeper diagnose" in done.stderr


def test_a_completed_trial_reproduces_bit_for_bit_from_a_checkpoint(broken):
    found = replay(broken, "baseline/0", "--windows", "1")

    assert found["verdict"] == "identical"
    assert len(found["windows"]) == 1
    assert found["checkpoint"] is not None


def test_the_diagnosis_names_the_symptom_and_finds_nothing_in_the_sound_trial(broken):
    found, sound = (diagnose(broken.study, trial) for trial in ("double/0", "baseline/0"))

    (rising,) = (f for f in found.findings if f.symptom is Symptom.RISING_LOSS)
    (guess,) = (g for g in found.guesses if g.symptom is Symptom.RISING_LOSS)
    assert rising.numbers["final"] > rising.numbers["initial"] + 1
    assert guess.command[-1] == "training.learning_rate=0.5"
    # How fast windows went is the machine's doing, which runs other tests meanwhile.
    timeless = [f for f in sound.findings if f.symptom is not Symptom.THROUGHPUT_COLLAPSE]
    assert timeless == []


def test_two_changes_are_refused_and_leave_nothing(broken):
    before = tree(broken.run_folder)
    two = ("--set", "training.learning_rate=1e-3", "--set", "training.precision=bfloat16")

    done = broken.here("replay", str(broken.study), "double/0", *two, expect=2)

    assert "a replay changes one thing" in done.stderr
    assert tree(broken.run_folder) == before


def test_a_whole_model_is_exported_and_loads_without_us(broken, load_elsewhere):
    """The trial that completed; nothing is frozen, so that it has to be named."""
    whole = broken.folder / "whole"
    command = ("export", str(broken.study), str(whole))

    refused = broken.here(*command, expect=2)
    broken.here(*command, "--trial", "baseline/0")

    assert "no choice has been frozen" in refused.stderr
    (loss,) = load_elsewhere(broken, (whole, None))["losses"]
    row = trials(broken.study).set_index("trial").loc["baseline/0"]
    assert loss == pytest.approx(row["validation_loss"], abs=1e-6)
    card = (whole / "README.md").read_text("utf-8")
    assert "**Not the frozen choice.**" in card
    assert "all weights were trained" in card
