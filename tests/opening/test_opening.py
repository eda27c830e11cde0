"""Opening the test split: once, after a freeze, with the intent on record before a record is read.

One real study serves all of these tests; what they need of it they copy.
"""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.data.prepared import PreparedSplit
from sweeper.errors import DataError, ModelError, NotFound, PlanError, StudyBusy, StudyConflict
from sweeper.opening.folder import EvaluationFolder, OpeningFolder
from sweeper.opening.opening import open_test, planned_opening
from sweeper.opening.planning import OpeningOrder
from sweeper.opening.request import CheckpointRequest
from sweeper.selection.chain import EntryKind
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, openings_in
from sweeper.selection.opened_sentences import times_evaluated
from sweeper.study.chain_file import read_chain_file
from sweeper.training.folder_digest import folder_digest

pytestmark = pytest.mark.slow

ORDER = OpeningOrder()
AGAIN = OpeningOrder(reason="the first was read by mistake")


@pytest.fixture(scope="module")
def interrupted(frozen_study, copy_of, tmp_path_factory):
    """The study after its opening was killed: the intent is on record, and no result. Read only."""
    bench = copy_of(frozen_study.file.parent, tmp_path_factory.mktemp("interrupted"))
    bench.open_until(EntryKind.TEST_INTENT)
    return bench


@pytest.fixture(scope="module")
def opened(interrupted, copy_of, watching, tmp_path_factory):
    """The study after the opening was taken up again, what that brought, and what was told."""
    bench = copy_of(interrupted.file.parent, tmp_path_factory.mktemp("opened"))
    before = folder_digest(bench.folder.prepared)
    told: list[str] = []
    with watching(bench):
        result = open_test(bench.study_file, bench.folder, ORDER, progress=told.append)
    assert folder_digest(bench.folder.prepared) == before, "nothing is written into prepared/"
    return bench, result, told


@pytest.fixture
def sweeper(capsys, monkeypatch):
    """Runs a command line in this process; returns exit status and both streams."""
    from sweeper.cli.main import main

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return end.value.code, *capsys.readouterr()

    return run


def plan(bench, order=ORDER):
    return planned_opening(bench.study_file, bench.folder, order)


def examined(bench, folder, **changes):
    """What the child does, in this process."""
    from sweeper.opening.examining import examine

    folder.mkdir()
    request = plan(bench).request
    return examine(
        request.model_copy(update=changes), EvaluationFolder(folder), tell=lambda _: None
    )


def loss_of(model, split, index):
    """The summed loss of a record and its targets, without batches, masks or padding."""
    import torch

    token_ids, supervised = split.example(index)
    tokens = torch.from_numpy(np.array(token_ids, dtype=np.int64))
    with torch.no_grad():
        logits = model(tokens[None]).logits[0]
    at = np.flatnonzero(supervised)
    scores = torch.log_softmax(logits[at - 1].double(), dim=-1)
    return -float(scores[torch.arange(len(at)), tokens[at]].sum()), len(at)


def test_every_frozen_checkpoint_is_scored_on_every_test_record(opened):
    _, result, _ = opened

    assert [(loss.role, loss.arm, loss.seed) for loss in result.losses] == [
        (Role.CHOSEN, "half", 0),
        (Role.BASELINE, "baseline", 0),
        (Role.INITIAL, None, 0),
    ]
    assert (result.opening, result.records_read, result.records) == (1, 8, 8)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_the_loss_is_that_of_the_saved_adapter_loaded_by_others(opened, tiny_model):
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    bench, result, _ = opened
    adapter = bench.folder.trials / "half-0" / "attempts" / "1" / "adapter"
    model = PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(tiny_model), adapter)
    attempts = OpeningFolder.of(bench.folder).path / "test" / "attempts"
    last = max(attempts.iterdir())  # one before it was killed half-way, or before it had a folder
    split = PreparedSplit.open(last / "tokens", "test")

    scored = [loss_of(model, split, index) for index in range(len(split))]

    by_hand = math.fsum(loss for loss, _ in scored) / sum(targets for _, targets in scored)
    assert result.losses[0].test_loss == pytest.approx(by_hand, abs=1e-5)
    assert result.target_tokens == sum(targets for _, targets in scored)


def test_the_losses_of_records_add_up_and_say_nothing_but_digests(opened):
    bench, result, _ = opened

    rows = pd.read_parquet(bench.folder.path / result.losses[0].per_record_path)

    assert rows["loss_sum"].sum() / rows["target_tokens"].sum() == pytest.approx(
        result.losses[0].test_loss, abs=1e-12
    )
    assert list(rows.columns) == ["digest", "group", "target_tokens", "loss_sum"]


def test_the_chain_has_freeze_intent_and_result_in_this_order_and_so_has_its_copy(opened):
    bench, result, _ = opened
    links = bench.links()

    assert [link.kind for link in links[-5:]] == [
        EntryKind.SELECTION_FROZEN,
        EntryKind.TEST_INTENT,
        EntryKind.NOTE,
        EntryKind.TEST_INTENT,
        EntryKind.TEST_RESULT,
    ]
    assert Opened.from_entry(links[-1].facts) == result
    assert links[-2].facts["frozen"] == links[-5].digest == result.frozen
    assert read_chain_file(bench.folder.chain) == links


def test_an_opening_that_was_killed_is_noted_and_taken_up_for_the_same_choice(interrupted, opened):
    bench, result, _ = opened
    begun = openings_in(interrupted.links()).unfinished

    assert begun.facts["frozen"] == result.frozen
    assert openings_in(bench.links()).aborted == 1
    assert bench.facts(EntryKind.NOTE)[-1] == {
        "test": "aborted, tried again",
        "intent": begun.number,
    }


def test_an_opening_that_was_killed_is_not_taken_up_for_another_choice(
    interrupted, copy_of, tmp_path
):
    bench = copy_of(interrupted.file.parent, tmp_path)
    with bench.write() as store:  # what `select` refuses, too
        link = openings_in(store.chain.links()).frozen
        store.chain.append(EntryKind.SELECTION_FROZEN, link.facts | {"arm": "baseline"})

    with pytest.raises(StudyConflict, match="begun for another choice"):
        open_test(bench.study_file, bench.folder, ORDER)

    assert len(bench.facts(EntryKind.TEST_INTENT)) == 1


def test_only_the_child_reads_a_test_record_and_only_after_the_intent(opened):
    bench, _, _ = opened

    readings = bench.readings.read_text().splitlines()

    assert readings == ["sweeper.opening after 2 intents"]


def test_the_validation_losses_are_computed_first_and_are_those_on_record(opened):
    _, _, told = opened

    assert [line.partition(":")[0] for line in told[:4]] == [
        "half-0",
        "baseline-0",
        "initial-0",
        "test split",
    ]
    assert all(line.endswith("as on record") for line in told[:3])


def test_nothing_of_what_a_test_record_says_is_in_the_run_folder(opened):
    bench, _, _ = opened
    prompts = [json.loads(line)["prompt"] for line in bench.test.read_text().splitlines()]

    written = b"".join(f.read_bytes() for f in bench.folder.path.rglob("*") if f.is_file())

    assert not [prompt for prompt in prompts if prompt.encode() in written]
    assert not [prompt for prompt in prompts if json.dumps(prompt).encode() in written]


def test_a_second_opening_is_refused_and_leaves_no_trace(opened):
    bench, _, _ = opened
    before = bench.links()

    with pytest.raises(StudyConflict, match="only the first opening counts"):
        open_test(bench.study_file, bench.folder, ORDER)

    assert bench.links() == before


def test_a_repetition_with_a_reason_is_marked_for_good(opened, copy_of, tmp_path, sweeper):
    first, result, _ = opened
    bench = copy_of(first.file.parent, tmp_path)
    why = "the first was read by mistake"

    status, out, err = sweeper(
        "open-test", bench.file, "--yes", "--repeat", "--reason", why, "--json"
    )

    openings = openings_in(bench.links())
    first, again = openings.results
    assert (status, first) == (0, result)
    assert err.splitlines()[-1] == f"Next: sweeper report {bench.file}"
    assert (again.opening, again.reason) == (2, why)
    assert [loss.test_loss for loss in again.losses] == [loss.test_loss for loss in result.losses]
    assert bench.links()[-2].kind == EntryKind.TEST_REPEAT
    told = json.loads(out)
    assert told["losses"] == json.loads(json.dumps(again.to_entry()))["losses"]
    assert told["sentences"][0] == times_evaluated(openings)
    assert told["test_difference"] == pytest.approx(
        result.losses[0].test_loss - result.losses[1].test_loss, abs=1e-12
    )


def test_for_another_choice_the_opened_split_is_spent(opened, copy_of, tmp_path):
    bench = copy_of(opened[0].file.parent, tmp_path)
    bench.freeze(arm="baseline")

    with pytest.raises(StudyConflict, match="The test split is spent"):
        plan(bench, AGAIN)


def test_an_intent_that_only_the_file_knows_binds_as_well(bench):
    opening = OpeningFolder.of(bench.folder)
    opening.path.mkdir()
    opening.intent.write_text(json.dumps({"frozen": "0" * 64}))

    with pytest.raises(StudyConflict, match="begun for another choice"):
        open_test(bench.study_file, bench.folder, ORDER)

    assert bench.facts(EntryKind.TEST_INTENT) == []


def test_an_intent_file_that_was_never_finished_binds_nobody(tmp_path):
    from sweeper.opening.opening import _make_intent

    file = tmp_path / "test.intent"
    file.touch()

    assert _make_intent(file, {"frozen": "a"}) is None
    assert _make_intent(file, {"frozen": "b"}) == "a"


def test_two_processes_do_not_open_it_at_once(bench):
    import fcntl

    opening = OpeningFolder.of(bench.folder)
    opening.path.mkdir()
    with opening.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StudyBusy, match="by another process"):
            open_test(bench.study_file, bench.folder, ORDER)


# What is refused before any record is read.


def test_without_a_freeze_nothing_is_opened(unfrozen):
    with pytest.raises(StudyConflict, match="nothing is frozen"):
        open_test(unfrozen.study_file, unfrozen.folder, ORDER)

    assert unfrozen.facts(EntryKind.TEST_INTENT) == []
    assert not OpeningFolder.of(unfrozen.folder).intent.exists()


def test_weights_that_were_changed_or_are_gone_are_named_together(bench):
    (half, baseline) = (
        bench.folder.trials / f"{arm}-0" / "attempts" / "1" / "adapter"
        for arm in ("half", "baseline")
    )
    (half / "README.md").write_text("changed")
    shutil.rmtree(baseline)

    with pytest.raises(StudyConflict) as refused:
        plan(bench)

    assert [fault.where for fault in refused.value.faults] == [str(half), str(baseline)]


def test_a_chain_that_was_tampered_with_opens_nothing(bench):
    import sqlite3

    with sqlite3.connect(bench.folder.database) as connection:
        connection.execute("UPDATE sweeper_chain SET entry = replace(entry, 'half', 'HALF')")
    connection.close()

    with pytest.raises(StudyConflict, match="digest it was sealed with"):
        plan(bench)


def test_a_manifest_with_another_seal_is_refused(bench):
    text = bench.folder.manifest.read_text()
    sealed = json.loads(text)["test"]["records_digest"]
    bench.folder.manifest.write_text(text.replace(sealed, "0" * 64))

    with pytest.raises(StudyConflict, match="other test records than the study began with"):
        plan(bench)


def test_a_test_file_that_is_not_there_is_asked_for_before_the_intent(bench):
    bench.test.rename(bench.test.with_name("elsewhere.jsonl"))

    with pytest.raises(NotFound, match="--test FILE"):
        open_test(bench.study_file, bench.folder, ORDER)

    assert bench.facts(EntryKind.TEST_INTENT) == []
    found = plan(bench, OpeningOrder(test=bench.test.with_name("elsewhere.jsonl")))
    assert found.request.records.test.path.endswith("elsewhere.jsonl")


def test_there_is_no_repetition_of_nothing(bench):
    with pytest.raises(PlanError, match="no result yet"):
        plan(bench, AGAIN)


# What the child refuses.


def test_a_changed_record_is_refused_by_its_digest_and_not_quoted(bench, tmp_path):
    lines = bench.test.read_text().splitlines()
    bench.test.write_text("\n".join([lines[0].replace("red", "RED"), *lines[1:]]) + "\n")

    with pytest.raises(DataError, match="not the test records that were sealed") as refused:
        examined(bench, tmp_path / "evaluation")

    assert json.loads(lines[0])["prompt"] not in str(refused.value)
    assert not (tmp_path / "evaluation" / "tokens").exists(), "nothing was tokenised or scored"


def test_weights_that_do_not_give_the_loss_on_record_keep_the_records_unread(bench, tmp_path):
    bench.test.write_text("no record: reading it would be another error")
    checkpoints = plan(bench).request.checkpoints
    swapped = checkpoints[0].model_copy(
        update={
            "weights": checkpoints[1].weights,
            "weights_sha256": checkpoints[1].weights_sha256,
        }
    )

    with pytest.raises(ModelError, match="not what was selected") as refused:
        examined(bench, tmp_path / "evaluation", checkpoints=(swapped, *checkpoints[1:]))

    (fault,) = refused.value.faults
    assert fault.where == "half-0"
    assert float(fault.got) == pytest.approx(checkpoints[1].validation_loss, abs=1e-6)
    assert fault.expected.startswith(repr(checkpoints[0].validation_loss))


def test_a_model_that_was_tuned_whole_is_loaded_from_its_folder(bench, tmp_path, tiny_model):
    initial = plan(bench).request.checkpoints[-1]
    spec = json.loads(Path(initial.spec).read_text()) | {"tune": "full", "lora": None}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    untrained = CheckpointRequest(
        role=Role.BASELINE,
        arm="baseline",
        seed=0,
        weights=str(tiny_model),
        weights_sha256=folder_digest(tiny_model),
        spec=str(tmp_path / "spec.json"),
        initial_digest=initial.initial_digest,
        validation_loss=initial.validation_loss,
    )

    found = examined(bench, tmp_path / "evaluation", checkpoints=(untrained, initial))

    assert found.losses[0].test_loss == found.losses[1].test_loss


def test_a_model_with_other_weights_is_not_the_untrained_one(bench, tmp_path):
    initial = plan(bench).request.checkpoints[-1]
    other = initial.model_copy(update={"initial_digest": "0" * 64})

    with pytest.raises(ModelError, match="not the weights that were frozen"):
        examined(bench, tmp_path / "evaluation", checkpoints=(other,))


# The command line.


def test_without_yes_it_says_what_it_would_do_and_opens_nothing(bench, sweeper):
    status, out, err = sweeper("open-test", bench.file)

    assert status == 2
    assert "Add --yes to open it" in err
    assert out.startswith("Frozen: half is chosen.\nTest split: 8 records with digest ")
    assert not OpeningFolder.of(bench.folder).path.exists()


def test_a_dry_run_names_the_command_that_opens(bench, sweeper):
    status, out, err = sweeper("open-test", bench.file, "--dry-run")

    rows = [line.split()[:3] for line in out.splitlines()[-3:]]
    assert rows == [["chosen", "half", "0"], ["baseline", "baseline", "0"], ["initial", "-", "0"]]
    assert (status, err) == (0, f"Next: sweeper open-test {bench.file} --yes\n")
    assert not OpeningFolder.of(bench.folder).path.exists()


def test_a_refused_second_opening_prints_the_first(opened, sweeper):
    bench, result, _ = opened

    status, out, err = sweeper("open-test", bench.file, "--yes")

    assert status == 2
    assert out.startswith("The test split was opened before, at ")
    assert f"{result.losses[0].test_loss:.4f}" in out
    assert "only the first opening counts" in err


@pytest.mark.parametrize("options", [["--repeat"], ["--reason", "because"]])
def test_repetition_and_reason_come_together(bench, sweeper, options):
    status, _, err = sweeper("open-test", bench.file, "--yes", *options)

    assert status == 2
    assert '--repeat --reason "WHY"' in err
