"""A small study to change one thing in, and prepared data to plan it with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.data.manifest import Manifest, SealedManifest, SplitManifest
from sweeper.data.prepared import EncodedRecord, write_split
from sweeper.study.loading import StudyFile, load_study

STUDY = """\
name: small
question: {kind: rate_too_high, text: Is the rate too high?}
justification: The loss spikes.
compare:
  key: training.learning_rate
  multiply: {half: 0.5, baseline: 1, double: 2}
seeds: [0, 1]
budget: {target_tokens: 17}
model: {path: models/tiny}
tune: lora
data:
  train: {path: data/train.jsonl}
  validation: {path: data/validation.jsonl}
  max_length: 512
training:
  learning_rate: 0.25
  schedule: {kind: cosine}
  records_per_update: 4
run: {micro_batch: 2}
"""

WriteStudy = Callable[..., Path]
LoadStudy = Callable[..., StudyFile]


@pytest.fixture(scope="session")
def study_text() -> str:
    return STUDY


@pytest.fixture
def write_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteStudy:
    """Writes the small study, old texts replaced by new, and returns its relative path."""
    monkeypatch.chdir(tmp_path)

    def write(*changes: tuple[str, str]) -> Path:
        text = STUDY
        for old, new in changes:
            assert text.count(old) == 1, f"{old!r} must stand once in the small study"
            text = text.replace(old, new)
        file = Path("study.yaml")
        file.write_text(text, encoding="utf-8")
        return file

    return write


@pytest.fixture
def load(write_study: WriteStudy) -> LoadStudy:
    return lambda *changes: load_study(write_study(*changes))


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """Ten records of five tokens, of which the last two are targets: 20 targets an epoch."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    write_split(folder / "train", [_record(number) for number in range(10)])
    return folder


def _record(number: int) -> EncodedRecord:
    return EncodedRecord(
        token_ids=[number] * 5,
        supervised=[False, False, False, True, True],
        digest=hashlib.sha256(str(number).encode()).digest(),
    )


@pytest.fixture
def manifest() -> Manifest:
    """What belongs to `prepared`; the sealed split is known by its digest."""
    return Manifest(
        request_digest="request",
        model_digest="model-content",
        model_commit=None,
        tokenizer_digest="tokenizer",
        uses_chat_template=False,
        pad_token_id=0,
        vocabulary_size=10,
        splits={"train": _split("train"), "validation": _split("validation")},
        test=SealedManifest(
            source="/data/test.jsonl", records=4, records_digest="sealed", overlap_checked=True
        ),
        overlaps=(),
        notices=("The columns were read as prompt and answer.",),
    )


def _split(name: str) -> SplitManifest:
    return SplitManifest(
        source=f"/data/{name}.jsonl",
        size_bytes=1000,
        modified_ns=1,
        file_sha256=f"{name}-file",
        holds_test_records=False,
        format="prompt_answer",
        records_read=10,
        records=10,
        dropped=(),
        cut=0,
        target_tokens=20,
        input_tokens=50,
        longest_tokens=5,
        records_digest=f"{name}-records",
        tokens_digest=f"{name}-tokens",
    )
