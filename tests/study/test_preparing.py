"""Preparing with the real children: made once, made again when asked anew, kept once on record."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

from sweeper.errors import DataError, ModelError, RunFolderError
from sweeper.study.folder import StudyFolder
from sweeper.study.preparing import prepare
from sweeper.training.report import ModelReport

pytestmark = pytest.mark.slow

EMBEDDING_ROWS = 300
MAX_POSITIONS = 64


@pytest.fixture(scope="session")
def sketch(tmp_path_factory) -> Path:
    """The shape of a tiny Llama with a byte tokenizer; preparing reads no weights."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>").save_pretrained(folder)
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=EMBEDDING_ROWS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=MAX_POSITIONS,
        eos_token_id=0,
    ).save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def study(load, tmp_path, sketch):
    """The small study with files to prepare; takes changes and returns the study file."""
    shutil.copytree(sketch, tmp_path / "models" / "tiny")
    (tmp_path / "data").mkdir()
    _write(tmp_path / "data" / "train.jsonl", ["one", "two", "three"])
    _write(tmp_path / "data" / "validation.jsonl", ["four"])
    return lambda *changes: load(("max_length: 512", "max_length: 32"), *changes)


@pytest.fixture
def folder(tmp_path) -> StudyFolder:
    return StudyFolder(tmp_path / "runs" / "small")


def _write(file: Path, answers: list[str]) -> None:
    records = [{"prompt": f"Say {answer}", "answer": answer} for answer in answers]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def _age(path: Path) -> None:
    """Sets the time back, so that whoever rewrites the file shows it."""
    os.utime(path, (1, 1))


def test_data_are_prepared_and_the_model_looked_at_once(study, folder) -> None:
    told: list[str] = []

    manifest = prepare(study(), folder, progress=told.append)

    assert manifest.splits["train"].records == 3
    report = ModelReport.read(folder.model_report)
    assert (report.embedding_rows, report.max_positions) == (EMBEDDING_ROWS, MAX_POSITIONS)
    left = sorted(path.name for path in folder.path.iterdir())
    assert left == ["prepare.lock", "prepare.log", "prepared"]
    _age(folder.manifest)
    _age(folder.model_report)
    assert prepare(study(), folder) == manifest
    assert folder.manifest.stat().st_mtime == 1
    assert folder.model_report.stat().st_mtime == 1


def test_another_adapter_is_looked_at_without_preparing_again(study, folder) -> None:
    """The target that no module has is told after the data were prepared, which are then kept."""
    with pytest.raises(ModelError, match="vproj"):
        prepare(study(("tune: lora", "tune: lora\nlora: {targets: [q_proj, vproj]}")), folder)
    _age(folder.manifest)

    prepare(study(("tune: lora", "tune: lora\nlora: {targets: [q_proj]}")), folder)

    assert folder.manifest.stat().st_mtime == 1
    report = ModelReport.read(folder.model_report)
    assert [name.rpartition(".")[2] for name in report.adapted_modules] == ["q_proj"]


def test_changed_files_are_prepared_again_before_the_study_is_on_record(
    study, folder, tmp_path
) -> None:
    before = prepare(study(), folder)
    _write(tmp_path / "data" / "train.jsonl", ["one", "two", "three", "more"])
    (tmp_path / "models" / "tiny" / "model.safetensors").write_bytes(b"other weights")

    after = prepare(study(), folder)

    assert (before.splits["train"].records, after.splits["train"].records) == (3, 4)
    assert before.model_digest != after.model_digest


def test_data_that_another_version_prepared_are_prepared_again(study, folder) -> None:
    made = prepare(study(), folder)
    older = made.model_copy(update={"version": made.version - 1})
    folder.manifest.write_text(older.to_json())

    assert prepare(study(), folder) == made


def test_the_model_of_a_packed_study_is_looked_at_for_what_packing_needs(study, folder) -> None:
    packing = ("max_length: 32", "max_length: 32\n  packing: {row_tokens: 64}")

    prepare(study(packing), folder)

    assert json.loads(folder.inspection.read_text())["is_packed"] is True


def test_records_that_cannot_be_used_come_back_as_faults_and_leave_nothing(
    study, folder, tmp_path
) -> None:
    (tmp_path / "data" / "train.jsonl").write_text('{"prompt": "one"}\n')

    with pytest.raises(DataError, match=r"train\.jsonl"):
        prepare(study(), folder)

    assert not folder.prepared.exists()


def test_a_run_folder_that_cannot_be_written_is_refused(study, folder, tmp_path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be")

    with pytest.raises(RunFolderError) as caught:
        prepare(study(), folder)

    assert str(caught.value) == (
        f"{tmp_path / 'runs'}: the run folder cannot be written (got File exists)."
        " Make it writable, or move the study file to a folder that is."
    )
