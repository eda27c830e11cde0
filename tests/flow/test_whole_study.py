"""One study from its file to its answer, and the same study again another way."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import optuna
import pandas as pd
import pytest

import sweeper
from sweeper.report.auditing import audit

pytestmark = pytest.mark.slow

BUDGET = 1200


@pytest.fixture(scope="module")
def finished(undisturbed, tmp_path_factory):
    """A copy of the study that was run by two slots through the command line."""
    return copied(undisturbed, tmp_path_factory.mktemp("finished"))


def copied(laboratory, place):
    shutil.copytree(laboratory.folder, place, dirs_exist_ok=True)
    return dataclasses.replace(laboratory, folder=place, study=place / laboratory.study.name)


def by_seed(laboratory, column):
    """The distinct values of a column, per seed."""
    frame = sweeper.trials(laboratory.study)
    return frame.groupby("seed")[column].nunique().to_dict()


def test_every_trial_reads_the_budget_to_the_token(finished):
    frame = sweeper.trials(finished.study)

    assert frame["target_tokens_read"].tolist() == [BUDGET] * 4
    assert frame["target_tokens_applied"].tolist() == [BUDGET] * 4
    assert frame["outcome"].tolist() == ["completed"] * 4


@pytest.mark.parametrize(
    "column", ["initial_loss", "first_window_loss", "initial_digest", "record_digest"]
)
def test_within_a_seed_all_arms_share_the(finished, column):
    assert by_seed(finished, column) == {0: 1, 1: 1}


@pytest.mark.parametrize("column", ["initial_digest", "record_digest", "validation_loss"])
def test_seeds_differ_in_the(finished, column):
    assert sweeper.trials(finished.study)[column].nunique() >= 2


def test_an_audit_finds_nothing_and_the_weights_may_be_frozen(finished):
    checks = audit(finished.study).checks

    assert [check.findings for check in checks] == [()] * 10
    assert checks[2].looked_at == "4 attempts, 4 of them ended"
    chosen = finished.here("select", str(finished.study), "--dry-run", "--json")
    assert len(json.loads(chosen.stdout)["checkpoints"]) >= 4


def test_the_same_study_in_reverse_order_on_one_slot_has_the_same_losses_bit_for_bit(
    finished, like_undisturbed
):
    other = like_undisturbed()
    code = (
        "import sys; from pathlib import Path; from sweeper.study.loading import load_study; "
        "from sweeper.sweep.running import RunChoices, run_study; "
        "from sweeper.workers.slots import Slot; "
        "slots = (Slot(name='only', device=None, threads=1),); "
        "run_study(load_study(Path(sys.argv[1])), "
        "choices=RunChoices(slots=slots, reverse_claims=True))"
    )

    subprocess.run([sys.executable, "-c", code, str(other.study)], check=True, timeout=280)

    claimed = sweeper.attempts(other.study).sort_values("claimed_at")["trial"].tolist()
    assert claimed == ["double/1", "baseline/1", "double/0", "baseline/0"]
    losses = ["trial", "window", "loss", "gradient_norm", "learning_rate"]
    pd.testing.assert_frame_equal(
        sweeper.updates(finished.study)[losses],
        sweeper.updates(other.study)[losses],
        check_exact=True,
    )
    ends = ["trial", "split", "grid_index", "loss"]
    pd.testing.assert_frame_equal(
        sweeper.evaluations(finished.study)[ends],
        sweeper.evaluations(other.study)[ends],
        check_exact=True,
    )


def test_optuna_reads_states_rates_and_values(finished):
    study = optuna.load_study(
        study_name="flow", storage=f"sqlite:///{finished.run_folder}/study.db"
    )

    recorded = {trial.user_attrs["cell"]: trial for trial in study.trials}

    rows = sweeper.trials(finished.study).set_index("trial")
    assert {cell: trial.state.name for cell, trial in recorded.items()} == dict.fromkeys(
        rows.index, "COMPLETE"
    )
    assert {cell: trial.value for cell, trial in recorded.items()} == rows[
        "validation_loss"
    ].to_dict()
    assert {cell: trial.params["learning_rate"] for cell, trial in recorded.items()} == {
        "baseline/0": 0.002,
        "double/0": 0.004,
        "baseline/1": 0.002,
        "double/1": 0.004,
    }


def test_optuna_s_own_command_line_lists_the_trials(finished):
    command = [Path(sys.executable).with_name("optuna"), "trials", "--study-name", "flow"]
    command += ["--storage", f"sqlite:///{finished.run_folder}/study.db", "-f", "json"]

    listed = subprocess.run(command, capture_output=True, text=True, check=True)

    assert len(json.loads(listed.stdout)) == 4


def test_a_finished_study_run_again_does_nothing_and_says_so(finished):
    before = sweeper.attempts(finished.study)

    again = finished.sweeper("run", str(finished.study))

    assert "nothing was run" in again.stdout
    pd.testing.assert_frame_equal(sweeper.attempts(finished.study), before)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_run_ends_as_ever_though_standard_error_takes_nothing(finished, redirection):
    run = finished.command("run", str(finished.study))

    again = subprocess.run(
        ["bash", "-c", f'exec "$@" {redirection}', "bash", *run],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (again.returncode, "nothing was run" in again.stdout) == (0, True)


def test_a_lost_database_is_made_anew_and_the_study_answers_as_before(finished, tmp_path):
    """In a copy of the study, so that the others keep their database."""
    copy = copied(finished, tmp_path)
    before = [answer(copy, word) for word in ("trials", "updates", "compare")]
    for file in copy.run_folder.glob("study.db*"):
        file.unlink()
    refused = copy.here("trials", str(copy.run_folder), expect=2)

    rebuilt = copy.sweeper("rebuild", str(copy.run_folder))

    assert "`sweeper rebuild" in refused.stderr
    assert "Restored 4 attempts; changes by hand: 0." in rebuilt.stdout
    assert [answer(copy, word) for word in ("trials", "updates", "compare")] == before
    assert "nothing was run" in copy.sweeper("run", str(copy.study)).stdout


def answer(laboratory, command):
    return laboratory.here(command, str(laboratory.run_folder), "--json", expect=None).stdout


def test_the_chosen_rule_names_every_arm_and_refuses_a_claim_from_two_seeds(finished):
    comparison = json.loads(finished.here("compare", str(finished.study), "--json").stdout)

    assert [arm["arm"] for arm in comparison["arms"]] == ["double"]
    assert comparison["arms"][0]["breaks"] == []
    assert comparison["arms"][0]["verdict"]["kind"] == "no_claim:too_few_seeds"
    assert comparison["answer"]["word"] == "not_shown"


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft reads it
def test_the_adapter_of_a_completed_trial_loads_and_gives_the_recorded_loss(finished):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    row = sweeper.trials(finished.study).iloc[0]
    adapter = finished.run_folder / row["adapter_path"]

    base = AutoModelForCausalLM.from_pretrained(finished.model)
    model = PeftModel.from_pretrained(base, adapter).eval()
    tokenizer = AutoTokenizer.from_pretrained(adapter)

    assert validation_loss(model, tokenizer, finished.data / "validation.jsonl") == pytest.approx(
        row["validation_loss"], abs=1e-6
    )


def validation_loss(model, tokenizer, file):
    """Written from the records alone: prompt, line feed, answer, end token; answers count."""
    import torch

    total, count = torch.zeros((), dtype=torch.float64), 0
    for line in file.read_text().splitlines():
        record = json.loads(line)
        prompt = tokenizer(record["prompt"] + "\n")["input_ids"]
        answer = [*tokenizer(record["answer"])["input_ids"], tokenizer.eos_token_id]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer])).logits[0].double()
        predictions = logits[len(prompt) - 1 : -1].log_softmax(-1)
        total -= predictions[range(len(answer)), answer].sum()
        count += len(answer)
    return (total / count).item()


def test_the_chat_of_progress_stays_off_standard_output(finished):
    rows = finished.sweeper("trials", str(finished.study), "--json")

    assert len(json.loads(rows.stdout)) == 4
    assert "Next: sweeper compare" in rows.stderr


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_changed_study_under_the_same_name_is_refused_with_old_and_new(finished, command):
    changed = finished.folder / "changed.yaml"
    changed.write_text(
        finished.study.read_text().replace("learning_rate: 2e-3", "learning_rate: 3e-3")
    )

    refused = finished.sweeper(command, str(changed), expect=2)

    assert "training.learning_rate" in refused.stderr
    assert "0.003" in refused.stderr
    assert "0.002" in refused.stderr
    assert "--as NEW-NAME" in refused.stderr
