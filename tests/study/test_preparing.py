"""Preparing with the real children: made once, made again when asked anew, kept once on record."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

from sweeper.data.manifest import Manifest
from sweeper.errors import DataError, ModelError, RunFolderError
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile, load_study
from sweeper.study.preparing import prepare
from sweeper.training.report import ModelReport

pytestmark = pytest.mark.slow

EMBEDDING_ROWS = 300
MAX_POSITIONS = 64


def _write_sketch(folder: Path) -> None:
    """Writes the shape of a tiny Llama with a byte tokenizer; preparing reads no weights."""
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


def _write(file: Path, answers: list[str]) -> None:
    records = [{"prompt": f"Say {answer}", "answer": answer} for answer in answers]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def _age(path: Path) -> None:
    """Sets the time back, so that whoever rewrites the file shows it."""
    os.utime(path, (1, 1))


@dataclass(frozen=True)
class Place:
    """A folder for the small study with files to prepare."""

    path: Path
    text: str

    def study(self, *changes: tuple[str, str]) -> StudyFile:
        """Returns the study with these changes."""
        text = self.text
        for old, new in (("max_length: 512", "max_length: 32"), *changes):
            assert text.count(old) == 1
            text = text.replace(old, new)
        (self.path / "study.yaml").write_text(text)
        return load_study(self.path / "study.yaml")

    @property
    def folder(self) -> StudyFolder:
        return StudyFolder(self.path / "runs" / "small")

    @property
    def train(self) -> Path:
        return self.path / "data" / "train.jsonl"


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory, study_text):
    """The place once its study was prepared, a copy of it, and what preparing returned."""
    place = Place(tmp_path_factory.mktemp("preparing") / "place", study_text)
    _write_sketch(place.path / "models" / "tiny")
    place.train.parent.mkdir()
    _write(place.train, ["one", "two", "three"])
    _write(place.train.with_name("validation.jsonl"), ["four"])
    manifest = prepare(place.study(), place.folder)
    return place, shutil.copytree(place.path, place.path.with_name("kept")), manifest


@pytest.fixture
def place(prepared_once) -> Place:
    """The place as it was when its study had been prepared, and before it is on record."""
    place, kept, _ = prepared_once
    shutil.rmtree(place.path)
    shutil.copytree(kept, place.path)
    return place


@pytest.fixture
def manifest(prepared_once) -> Manifest:
    return prepared_once[2]


def test_data_are_prepared_and_the_model_looked_at_once(place, manifest) -> None:
    folder = place.folder
    assert manifest.splits["train"].records == 3
    report = ModelReport.read(folder.model_report)
    assert (report.embedding_rows, report.max_positions) == (EMBEDDING_ROWS, MAX_POSITIONS)
    left = sorted(path.name for path in folder.path.iterdir())
    assert left == ["prepare.lock", "prepare.log", "prepared"]
    _age(folder.manifest)
    _age(folder.model_report)
    assert prepare(place.study(), folder) == manifest
    assert folder.manifest.stat().st_mtime == 1
    assert folder.model_report.stat().st_mtime == 1


def test_another_adapter_is_looked_at_without_preparing_again(place) -> None:
    """The target that no module has is told of data that are prepared, which are then kept."""
    _age(place.folder.manifest)
    misspelt = ("tune: lora", "tune: lora\nlora: {targets: [q_proj, vproj]}")
    with pytest.raises(ModelError, match="vproj"):
        prepare(place.study(misspelt), place.folder)

    prepare(place.study(("tune: lora", "tune: lora\nlora: {targets: [q_proj]}")), place.folder)

    assert place.folder.manifest.stat().st_mtime == 1
    report = ModelReport.read(place.folder.model_report)
    assert [name.rpartition(".")[2] for name in report.adapted_modules] == ["q_proj"]


def test_changed_files_are_prepared_again_before_the_study_is_on_record(place, manifest) -> None:
    _write(place.train, ["one", "two", "three", "more"])
    (place.path / "models" / "tiny" / "model.safetensors").write_bytes(b"other weights")

    after = prepare(place.study(), place.folder)

    assert (manifest.splits["train"].records, after.splits["train"].records) == (3, 4)
    assert manifest.model_digest != after.model_digest


def test_data_that_another_version_prepared_are_prepared_again(place, manifest) -> None:
    older = manifest.model_copy(update={"version": manifest.version - 1})
    place.folder.manifest.write_text(older.to_json())

    assert prepare(place.study(), place.folder) == manifest


def test_the_model_of_a_packed_study_is_looked_at_for_what_packing_needs(place) -> None:
    packing = ("max_length: 32", "max_length: 32\n  packing: {row_tokens: 64}")

    prepare(place.study(packing), place.folder)

    assert json.loads(place.folder.inspection.read_text())["is_packed"] is True


def test_records_that_cannot_be_used_come_back_as_faults_and_leave_nothing(place) -> None:
    shutil.rmtree(place.path / "runs")
    place.train.write_text('{"prompt": "one"}\n')

    with pytest.raises(DataError, match=r"train\.jsonl"):
        prepare(place.study(), place.folder)

    assert not place.folder.prepared.exists()


def test_a_run_folder_that_cannot_be_written_is_refused(place) -> None:
    shutil.rmtree(place.path / "runs")
    (place.path / "runs").write_text("a file where a folder should be")

    with pytest.raises(RunFolderError) as caught:
        prepare(place.study(), place.folder)

    assert str(caught.value) == (
        f"{place.path / 'runs'}: the run folder cannot be written (got File exists)."
        " Make it writable, or move the study file to a folder that is."
    )
