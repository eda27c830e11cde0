"""What an export copies, cleans and refuses; nothing here loads a model."""

import hashlib
import json

import pytest
import shipments

from sweeper.errors import PlanError, RunFolderError, StudyConflict
from sweeper.study.folder import StudyFolder
from sweeper.sweep.exporting import ExportOrder, export
from sweeper.training.folder_digest import folder_digest
from sweeper.training.options import ModelOptions

LOSS = 1.59
CONFIG = {"base_model_name_or_path": "/home/eve/base", "revision": None, "r": 4}


def spec(**changes):
    return shipments.spec(**{"model": ModelOptions(path="/home/eve/base")} | changes)


@pytest.fixture
def weights(study):
    """An adapter as a trial left it, in the run folder of a small study."""
    study.folder.path.mkdir(parents=True)
    study.folder.recorded_study.write_text(study.file.path.read_text())
    folder = study.folder.attempt(arm="half", seed=0, number=1) / "adapter"
    folder.mkdir(parents=True)
    (folder.parent / "spec.json").write_text(spec().to_json())
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG))
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    (folder / "README.md").write_text("base_model: /home/eve/base")
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"name_or_path": "/home/eve/base", "local_files_only": True, "pad_token": "ä"})
    )
    return folder


def exported(weights, destination, /, **changes):
    """Exports without evaluating; the card says what it was given."""
    run_folder = StudyFolder.of_attempt(weights.parent)
    settings = {
        "folder": run_folder,
        "trial": "half/0",
        "weights": str(weights.relative_to(run_folder.path)),
        "sha256": folder_digest(weights),
        "validation_loss": LOSS,
        "environment": {"device": "cpu"},
        "destination": destination,
        "verify": False,
    }
    return export(
        ExportOrder(**settings | changes), lambda found: f"{found.base.hub_id}\n", progress=print
    )


def refusal(error, weights, destination, /, **changes):
    """Returns why it was refused, once nothing is left of it."""
    with pytest.raises(error) as refused:
        exported(weights, destination, **changes)
    assert not list(destination.parent.glob(f".{destination.name}*"))
    return str(refused.value)


def test_the_folder_holds_the_weights_the_tokenizer_and_the_card(weights, tmp_path):
    done = exported(weights, tmp_path / "out")

    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert (out / "README.md").read_text() == "None\n"
    assert (out / "tokenizer.json").read_bytes() == (weights / "tokenizer.json").read_bytes()
    assert [(each.name, each.size_bytes) for each in done.files][1] == (
        "adapter_model.safetensors",
        7,
    )
    assert done.files[1].sha256 == hashlib.sha256(b"weights").hexdigest()
    assert done.is_adapter
    assert done.validation_loss is None


def test_nothing_in_it_says_where_things_were_here(weights, tmp_path):
    exported(weights, tmp_path / "out")

    config = json.loads((tmp_path / "out" / "adapter_config.json").read_bytes())
    tokenizer = json.loads((tmp_path / "out" / "tokenizer_config.json").read_bytes())
    assert config == {"base_model_name_or_path": None, "revision": None, "r": 4}
    assert tokenizer == {"pad_token": "ä"}
    assert b"/home" not in b"".join(p.read_bytes() for p in (tmp_path / "out").iterdir())


def test_the_adapter_names_its_base_as_the_hub_does(weights, tmp_path):
    model = ModelOptions(path="mice/tiny-llama", revision="ab" * 20)
    (weights.parent / "spec.json").write_text(spec(model=model).to_json())

    exported(weights, tmp_path / "out")

    config = json.loads((tmp_path / "out" / "adapter_config.json").read_bytes())
    assert config["base_model_name_or_path"] == "mice/tiny-llama"
    assert config["revision"] == "ab" * 20


def test_an_empty_folder_is_filled_and_missing_ones_above_it_are_made(weights, tmp_path):
    (tmp_path / "empty").mkdir()

    exported(weights, tmp_path / "empty")
    exported(weights, tmp_path / "a" / "b")

    assert (tmp_path / "empty" / "README.md").exists()
    assert (tmp_path / "a" / "b" / "README.md").exists()


def test_a_place_that_is_taken_is_left_as_it_is(weights, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")

    assert "there is something already" in refusal(PlanError, weights, tmp_path / "full")
    assert "there is something already" in refusal(PlanError, weights, tmp_path / "file")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_weights_that_are_not_those_on_record_are_refused_with_both_digests(weights, tmp_path):
    recorded = folder_digest(weights)
    (weights / "adapter_model.safetensors").write_bytes(b"Weights")
    found = folder_digest(weights)

    said = refusal(StudyConflict, weights, tmp_path / "out", sha256=recorded)

    assert f"not the weights that are on record (got {found}; expected {recorded})" in said
    assert not (tmp_path / "out").exists()


def test_weights_that_are_gone_are_refused(weights, tmp_path):
    said = refusal(StudyConflict, weights, tmp_path / "out", weights="trials/half-0/gone")
    assert "the weights are gone" in said


def test_weights_whose_trial_is_no_longer_described_are_refused(weights, tmp_path):
    (weights.parent / "spec.json").unlink()
    assert "what the trial was told is gone" in refusal(StudyConflict, weights, tmp_path / "out")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"tune": "full", "lora": None}, "there is no adapter to merge"),
        ({"model": ModelOptions(path="/m", quantization="nf4")}, "in four bits is not merged"),
    ],
)
def test_what_cannot_be_merged_is_refused_before_a_model_is_loaded(weights, tmp_path, told, said):
    (weights.parent / "spec.json").write_text(spec(**told).to_json())

    assert said in refusal(PlanError, weights, tmp_path / "out", merged=True)


def test_an_export_that_fails_half_way_leaves_nothing(weights, tmp_path):
    """The prepared data, without which it cannot be evaluated, are not there."""
    said = refusal(RunFolderError, weights, tmp_path / "out", verify=True)

    assert "prepared" in said
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_said(weights, tmp_path):
    (tmp_path / "file").write_text("")
    said = refusal(RunFolderError, weights, tmp_path / "file" / "out")
    assert "the export cannot be written" in said
