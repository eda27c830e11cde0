"""Weights that leave the study: whole, with their card, and with the loss that is on record."""

import pytest
from huggingface_hub import ModelCard

import sweeper
from sweeper.errors import ModelError
from sweeper.trial.export.exporting import complete
from sweeper.trial.export.request import ExportRequest

pytestmark = pytest.mark.slow

ADAPTER = (
    "selection: {checkpoint: best_validation}\ntune: lora\n"
    "lora: {rank: 4, alpha: 8, dora: true, targets: all-linear, modules_to_save: [lm_head]}"
)


@pytest.fixture(scope="module")
def adapter_study(tmp_path_factory, tiny_model, set_up):
    """A study of adapters whose choice, the baseline, is frozen; its best weights count."""
    study = set_up(
        tmp_path_factory.mktemp("adapters"),
        tiny_model,
        tune=ADAPTER,
        seeds="[0]",
        budget=200,
        every=100,
        slots="[cpu]",
    )
    study.sweeper("run", str(study.study))
    study.here("select", str(study.study))
    return study


@pytest.fixture(scope="module")
def exports(adapter_study):
    """The folders: the frozen adapter, and the same merged into its base."""
    chosen, merged = (adapter_study.folder / name for name in ("chosen", "merged"))
    adapter_study.here("export", str(adapter_study.study), str(chosen))
    adapter_study.here("export", str(adapter_study.study), str(merged), "--merged")
    return chosen, merged


@pytest.fixture(scope="module")
def elsewhere(exports, adapter_study, load_elsewhere):
    chosen, merged = exports
    return load_elsewhere(adapter_study, (chosen, adapter_study.model), (merged, None))


def recorded(study, trial):
    return float(sweeper.trials(study.study).set_index("trial").loc[trial, "validation_loss"])


def test_a_fresh_process_finds_the_loss_on_record(elsewhere, adapter_study):
    adapter, merged = elsewhere["losses"]
    assert adapter == pytest.approx(recorded(adapter_study, "baseline/0"), abs=1e-6)
    assert merged == pytest.approx(recorded(adapter_study, "baseline/0"), abs=1e-5)


def test_the_tokenizer_comes_with_the_weights(elsewhere):
    adapter, merged = elsewhere["words"]
    assert len(adapter) == len("red bread")
    assert adapter == merged


def test_a_merged_model_has_no_adapter_in_it(exports):
    names = {path.name for path in exports[1].iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert not [name for name in names if name.startswith("adapter")]


def test_nothing_that_is_exported_says_where_it_was_made(exports, adapter_study):
    here = [
        str(path).encode()
        for path in (adapter_study.model, adapter_study.folder.parent, adapter_study.data)
    ]

    files = [path for folder in exports for path in folder.rglob("*") if path.is_file()]

    assert len(files) > 8
    assert [path for path in files if any(each in path.read_bytes() for each in here)] == []


def test_the_cards_say_what_was_exported_and_what_it_gave(exports, adapter_study):
    chosen, merged = (ModelCard.load(folder / "README.md") for folder in exports)

    assert (chosen.data.library_name, merged.data.library_name) == ("peft", "transformers")
    assert "**The frozen choice.** Of the chosen arm, baseline" in chosen.text
    assert f"{recorded(adapter_study, 'baseline/0')!r} is on record" in chosen.text
    assert "a DoRA adapter merged into its base model" in merged.text


def test_other_weights_than_those_on_record_are_not_taken_for_them(exports, adapter_study):
    """What `--verify` is for: here the record is made to say another loss."""
    best = adapter_study.run_folder / "trials" / "baseline-0" / "attempts" / "1" / "best"
    request = ExportRequest(
        spec=str(best.parent / "spec.json"),
        prepared=str(adapter_study.run_folder / "prepared"),
        weights=str(best),
        folder=str(exports[0]),
        is_adapter=True,
        merge=False,
        verify=True,
        validation_loss=recorded(adapter_study, "baseline/0") + 2e-6,
    )

    with pytest.raises(ModelError, match="do not give the validation loss on record"):
        complete(request, tell=lambda _: None)
