"""Who replays a trial, where, and what is refused before a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.data.manifest import Manifest
from sweeper.data.options import DataOptions, Source
from sweeper.data.request import ModelSource, PrepareRequest
from sweeper.errors import PlanError, RunFolderError, StudyConflict
from sweeper.study.folder import StudyFolder
from sweeper.study.inputs import stamp
from sweeper.sweep.replaying import ReplayOrder, replay
from sweeper.trial.replay.folder import ReplayFolder
from sweeper.trial.replay.request import OtherRate, ReplayRequest


@pytest.fixture
def folder(study) -> StudyFolder:
    """The run folder of a small study whose data were prepared with a model of one file."""
    model = study.place / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    made = study.folder
    made.prepared.mkdir(parents=True)
    made.recorded_study.write_text(study.file.path.read_text())
    request = PrepareRequest(
        model=ModelSource(path=str(model)),
        data=DataOptions(
            train=Source(path="t.jsonl"), validation=Source(path="v.jsonl"), max_length=16
        ),
    )
    (made.prepared / "request.json").write_text(request.to_json())
    made.inputs.write_text(stamp(request).model_dump_json())
    manifest = Manifest(
        request_digest="",
        model_digest="",
        model_commit=None,
        tokenizer_digest="",
        uses_chat_template=False,
        pad_token_id=0,
        vocabulary_size=4,
        splits={},
        test=None,
        overlaps=(),
        notices=(),
    )
    made.manifest.write_text(manifest.to_json())
    return made


def order(folder, *, device="cpu", **changes):
    settings = {
        "folder": folder,
        "trial": "half/0",
        "attempt": "trials/half-0/attempts/1",
        "environment": {"device": device},
        "windows": None,
        "change": None,
    }
    return ReplayOrder(**settings | changes)


def silent(_line):
    """Takes what nobody looks at."""


@pytest.mark.slow
def test_each_replay_has_a_folder_of_its_own_with_what_was_asked_and_the_log(folder):
    """There is no such attempt: the child says so, and its words come back as they were."""
    for _ in range(2):
        with pytest.raises(RunFolderError, match="the record of the attempt cannot be read"):
            replay(order(folder, windows=7, change=OtherRate(value=0.5)), progress=silent)

    assert sorted(path.name for path in folder.replays.iterdir()) == ["half-0-1", "half-0-2"]
    asked = ReplayRequest.read(ReplayFolder(folder.replays / "half-0-1").request)
    assert asked == ReplayRequest(
        attempt=str(folder.path.resolve() / "trials/half-0/attempts/1"),
        prepared=str(folder.prepared.resolve()),
        windows=7,
        change=OtherRate(value=0.5),
    )
    assert ReplayFolder(folder.replays / "half-0-2").log.exists()


def test_a_model_whose_files_have_changed_is_refused(folder):
    request = PrepareRequest.read(folder.prepared / "request.json")
    Path(request.model.path, "config.json").write_text('{"other": 1}')

    with pytest.raises(StudyConflict, match="not the model that the study was prepared with"):
        replay(order(folder), progress=silent)

    assert not folder.replays.exists()


def test_prepared_data_that_are_gone_are_refused(folder):
    folder.manifest.unlink()

    with pytest.raises(RunFolderError):
        replay(order(folder), progress=silent)


def test_a_trial_of_a_gpu_is_not_replayed_on_a_processor(folder):
    """The study lists processors alone."""
    text = folder.recorded_study.read_text().replace("run: {", "run: {slots: [cpu], ")
    folder.recorded_study.write_text(text)

    with pytest.raises(PlanError, match="the trial ran on a GPU, and there is none here"):
        replay(order(folder, device="NVIDIA H200"), progress=silent)

    assert not folder.replays.exists()


def test_a_replay_that_has_no_place_to_write_to_is_refused(folder):
    folder.replays.write_text("a file")

    with pytest.raises(RunFolderError, match="the replay has no place to write to"):
        replay(order(folder), progress=silent)


def test_the_request_comes_back_from_its_file(tmp_path):
    request = ReplayRequest(attempt="/a", prepared="/p", change=OtherRate(value=1e-4))
    file = tmp_path / "request.json"
    file.write_text(request.to_json())

    assert ReplayRequest.read(file) == request
    assert json.loads(file.read_text())["change"] == {"kind": "learning_rate", "value": 1e-4}
