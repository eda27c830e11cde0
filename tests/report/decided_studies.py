"""A study of two rates and five seeds on record, with weights, data and an answer; no torch.

`half` is better than `baseline` by 0.0106 nats in the mean (T01 of the numeric cases). Loaded by
its path, after `recorded_studies`, whose facts it is made of.
"""

import dataclasses
import json
from pathlib import Path

from sweeper.data.manifest import Manifest, SealedManifest, SplitManifest, tokens_digest
from sweeper.data.prepared import EncodedRecord, PreparedSplit, write_split
from sweeper.records import Artifact, Outcome, Reason
from sweeper.store.endings import Cost
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.data_facts import data_facts
from sweeper.study.fingerprint import fingerprint, protocol_of
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.training.folder_digest import folder_digest

SEEDS = (0, 1, 2, 3, 4)
BASELINE = (1.602, 1.598, 1.611, 1.605, 1.594)
HALF = (1.590, 1.589, 1.596, 1.597, 1.585)
RATES = {"half": 0.0001, "baseline": 0.0002}
TAKEN = None
"""What identifies the earlier choice that the rate is from; None: the study file gives it."""
TEST_DIGEST = "7" * 64


class Decided:
    """The study, and what tests do to it.

    Attributes:
        file: The study file.
        folder: Its run folder.
    """

    def __init__(self, place: Path, recorded_studies) -> None:
        self._facts = recorded_studies
        self.file = place / "study.yaml"
        self.folder = StudyFolder.beside(self.file, "rates")

    def open(self) -> StudyStore:
        return StudyStore.open(self.folder.database_url)

    def living_owner(self):
        """This process, which lives."""
        return self._facts.living_owner()

    def weights(self, cell: str) -> Path:
        """The file that a trial left its weights in."""
        arm, seed = cell.split("/")
        attempt = self.folder.attempt(arm=arm, seed=int(seed), number=1)
        return attempt / "adapter" / "adapter_model.safetensors"

    def found(self) -> None:
        """Writes the study file and the prepared data, and records ten cells that wait."""
        text = self._facts.STUDY_FILE.replace("seeds: [0, 1, 2]", f"seeds: {list(SEEDS)}")
        text = text.replace(", double: 2", "").replace("smallest_difference: 0.25, ", "")
        self.file.write_text(text, encoding="utf-8")
        self.folder.make()
        self.folder.recorded_study.write_text(text, encoding="utf-8")
        manifest = _prepare(self.folder.prepared)
        protocol = self._protocol(manifest)
        study = RecordedStudy(
            name="rates",
            fingerprint=fingerprint(protocol),
            protocol=protocol,
            study_yaml=text,
            factor_key="training.learning_rate",
            arms=RATES,
            seeds=SEEDS,
            budget_target_tokens=self._facts.BUDGET,
        )
        cells = [
            self._facts.PlannedCell(f"{arm}/{seed}", arm, seed, RATES[arm])
            for seed in SEEDS
            for arm in ("baseline", "half")
        ]
        with StudyStore.create(self.folder.database_url) as store:
            store.record_study(study, data=data_facts(manifest))
            store.add_cells(cells)
        self._write_plan(study, cells, data_facts(manifest))

    def complete(self, cell: str, loss: float) -> None:
        """Completes the cell with that validation loss, and leaves weights."""
        weights = self.weights(cell)
        weights.parent.mkdir(parents=True)
        weights.write_text(f"weights of {cell}")
        facts = self._facts
        adapter = Artifact(kind="adapter", path="adapter", sha256=folder_digest(weights.parent))
        with self.open() as store:
            claim = store.claim(facts.dead_owner(), "cpu:0", cell=cell)
            facts.report(
                store,
                claim,
                facts.started(cell),
                facts.evaluation(0),
                facts.evaluation(0, split="retention", loss=3.0),
                *(facts.update(window) for window in (1, 2, 3)),
                facts.evaluation(1, loss=loss),
                facts.evaluation(1, split="retention", loss=1.5 + loss),
                adapter,
            )
            store.finish(
                claim,
                Outcome(reason=Reason.BUDGET_REACHED, detail="read 30 of 30 target tokens"),
                max_resumes=0,
                cost=Cost(wall_seconds=2.0),
            )

    def stop(self, cell: str) -> None:
        """Stops the cell before its second window."""
        facts = self._facts
        with self.open() as store:
            claim = store.claim(facts.dead_owner(), "cpu:0", cell=cell)
            facts.report(store, claim, facts.started(cell), facts.evaluation(0), facts.update(1))
            outcome = Outcome(reason=Reason.DIVERGED, detail="rose by 2 nats")
            store.finish(claim, outcome, max_resumes=0)

    def _protocol(self, manifest):
        study = load_study(self.file).study
        rate = {"learning_rate": RATES["baseline"]}
        with_rate = {"training": study.training.model_copy(update=rate)}
        study = study.model_copy(update=with_rate)
        return protocol_of(study, manifest, folder=self.file.parent, baseline=TAKEN)

    def _write_plan(self, study, cells, data) -> None:
        plan = {
            "name": study.name,
            "fingerprint": study.fingerprint,
            "protocol": study.protocol,
            "factor_key": study.factor_key,
            "arms": list(RATES.items()),
            "seeds": SEEDS,
            "budget_target_tokens": study.budget_target_tokens,
            "cells": [dataclasses.asdict(cell) for cell in cells],
            "data": data,
        }
        self.folder.plan.write_text(json.dumps(plan))


def found(place: Path, recorded_studies) -> Decided:
    """Returns the study with its ten cells waiting."""
    study = Decided(place, recorded_studies)
    study.found()
    return study


def decided(place: Path, recorded_studies) -> Decided:
    """Returns the study with its ten cells completed."""
    study = found(place, recorded_studies)
    for seed, (baseline, half) in enumerate(zip(BASELINE, HALF, strict=True)):
        study.complete(f"baseline/{seed}", baseline)
        study.complete(f"half/{seed}", half)
    return study


def _prepare(prepared: Path) -> Manifest:
    prepared.mkdir(parents=True)
    splits = {name: _split(prepared / name) for name in ("train", "validation")}
    manifest = Manifest(
        request_digest="1" * 64,
        model_digest="m" * 64,
        model_commit=None,
        tokenizer_digest="2" * 64,
        uses_chat_template=False,
        pad_token_id=0,
        vocabulary_size=100,
        splits=splits,
        test=SealedManifest(
            source="/data/test.jsonl", records=40, records_digest=TEST_DIGEST, overlap_checked=True
        ),
        overlaps=(),
        notices=(),
    )
    (prepared / "manifest.json").write_text(manifest.to_json())
    return manifest


def _split(folder: Path) -> SplitManifest:
    record = EncodedRecord(token_ids=[1, 2, 3], supervised=[False, True, True], digest=b"d" * 32)
    write_split(folder, [record])
    return SplitManifest(
        source=f"/data/{folder.name}.jsonl",
        size_bytes=10,
        modified_ns=1,
        file_sha256="3" * 64,
        holds_test_records=False,
        format="text",
        records_read=1,
        records=1,
        dropped=(),
        cut=0,
        target_tokens=2,
        input_tokens=3,
        longest_tokens=3,
        records_digest=PreparedSplit.open(folder.parent, folder.name).records_digest,
        tokens_digest=tokens_digest(folder),
    )
