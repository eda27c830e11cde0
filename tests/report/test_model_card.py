"""The model card: what the hub reads of it, and what a person does."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest
import shipments
from huggingface_hub import ModelCard

from sweeper.report.dossier import read_dossier
from sweeper.report.formats import markdown
from sweeper.report.model_card import model_card
from sweeper.report.parts.fixed import fixed_settings
from sweeper.report.parts.limits import limits
from sweeper.report.shipping import shipment
from sweeper.selection.opened import Openings
from sweeper.training.options import LoraOptions, ModelOptions

DROPS = [-0.012, -0.009, -0.015, -0.008, -0.009]
"""By which half is lower on the test split, seed by seed."""
GOLDEN = Path(__file__).with_name("golden") / "model_card.md"


def _loaded(script):
    spec = importlib.util.spec_from_file_location(f"card_{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


OPENINGS = _loaded(Path(__file__).parents[1] / "selection" / "openings.py")


def card(study, trial=None, **changes):
    dossier = read_dossier(study.file)
    return model_card(dossier, shipment(dossier, trial), shipments.exported(**changes))


def same(text):
    """Leaves out what is another each time, and the parts that tests of the report are about."""
    text = re.sub(r"(?s)(## Limits\n\n).*?\n\n## ", r"\1LIMITS\n\n## ", text)
    text = re.sub(r"(?s)\| model\.dtype.*?\n\n", "SETTINGS\n\n", text)
    text = re.sub(r"begun \d{4}-\d\d-\d\d", "begun DAY", text)
    text = re.sub(r"(what is studied\.\*\* )\w{64}", r"\1FINGERPRINT", text)
    text = re.sub(r"(Head of the chain\.\*\* )\w{64}", r"\1HEAD", text)
    return re.sub(r"sweeper \d+\.\d+\.\d+", "sweeper VERSION", text)


def test_the_card_of_a_frozen_choice_reads_as_it_was_read(frozen):
    """The file was read by a person, line by line; every number in it is on record."""
    assert same(card(frozen)) == GOLDEN.read_text(encoding="utf-8")


def test_settings_and_limits_are_those_of_the_report(frozen):
    text, dossier = card(frozen), read_dossier(frozen.file)

    assert f"what is studied.** {dossier.recorded.fingerprint}\n" in text
    listed = {str(row["setting"]): row["value"] for row in fixed_settings(dossier).rows}
    shown = dict(re.findall(r"(?m)^\| ([a-z_.0-9]+) \| (.*) \|$", text))
    assert {"model.path", "data.train.path"} & shown.keys() == set()
    assert shown["training.records_per_update"] == listed["training.records_per_update"] == "2"
    assert shown["precision"] == "float32", "what `auto` came to, beside it"
    assert [limit for limit in limits(dossier) if f"- {markdown(limit)}\n" not in text] == []


def test_the_hub_reads_the_head(frozen):
    data = ModelCard(card(frozen)).data

    assert data.to_dict() == {
        "base_model": "mice/tiny-llama",
        "base_model_relation": "adapter",
        "library_name": "peft",
        "model_name": "rates: half/0",
        "pipeline_tag": "text-generation",
        "tags": ["lora", "sweeper"],
    }


def test_a_merged_model_is_no_adapter(frozen):
    text = card(frozen, merged=True, is_adapter=False)

    data = ModelCard(text).data.to_dict()
    assert (data["library_name"], data["base_model_relation"]) == ("transformers", "finetune")
    assert "A causal language model: a LoRA adapter merged into mice/tiny-llama, made by" in text
    assert 'model = AutoModelForCausalLM.from_pretrained("THIS FOLDER", dtype' not in text
    assert "PeftModel" not in text


def test_a_base_of_which_only_a_folder_is_known_is_not_named(frozen):
    text = card(frozen, base=shipments.UNKNOWN)

    assert "base_model" not in ModelCard(text).data.to_dict()
    assert "where others find it is not on record" in text
    assert 'AutoModelForCausalLM.from_pretrained("THE BASE MODEL"' in text
    assert "/models/base" not in text


def test_a_hub_id_that_a_folder_names_is_said_to_be_no_proof(frozen):
    text = card(frozen, base=shipments.FROM_A_FOLDER)

    assert "nothing shows that its weights are those of the hub" in text
    assert "revision=" not in text


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        (
            "half/3",
            "**A seed picked by hand.** The arm, half, is the frozen choice, of which half/0",
        ),
        ("baseline/1", "**Not the frozen choice.** It was named by hand: that is half/0."),
    ],
)
def test_what_was_named_by_hand_says_so_at_the_top(frozen, trial, said):
    assert said in card(frozen, trial).split("## ")[0]


def test_before_a_freeze_it_says_that_nothing_is_frozen(decided):
    assert "**Not the frozen choice.** It was named by hand: no choice has been frozen." in card(
        decided, "half/0"
    )


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "The test split was evaluated once."),
        (2, "The test split was evaluated 2 times; only the first counts"),
    ],
)
def test_an_opened_test_split_is_told_and_how_often_it_was_evaluated(frozen, count, said):
    dossier = read_dossier(frozen.file)
    results = tuple(OPENINGS.with_test_differences(DROPS) for _ in range(count))
    opened = dataclasses.replace(dossier, openings=Openings(results=results))

    text = model_card(opened, shipment(opened, None), shipments.exported())

    part = text.split("## Test split")[1].split("## ")[0]
    assert part.strip().startswith(said)
    assert "on the test split, too, half is lower than baseline" in part
    assert "| model | seed | validation_loss | test_loss |" in part


def test_weights_in_four_bits_are_loaded_in_four_bits(frozen):
    model = ModelOptions(path="/models/base", quantization="nf4")

    text = card(frozen, spec=shipments.spec(model=model, lora=LoraOptions(dora=True)))

    assert 'bnb_4bit_quant_type="nf4"' in text
    assert "quantization_config=four_bits" in text
    assert ModelCard(text).data.tags == ["dora", "sweeper"]


def test_files_that_were_not_evaluated_are_said_not_to_have_been(frozen):
    assert "were not evaluated" in card(frozen, validation_loss=None, tolerance=None)


def test_foreign_words_are_shown_as_they_are_and_paths_and_hosts_are_left_out(
    page_records, page_studies
):
    found = page_records["hostile"]
    dossier = read_dossier(found.folder.path)
    trial = next(row["trial"] for row in dossier.trials.rows if row["outcome"] == "completed")

    text = model_card(dossier, shipment(dossier, str(trial)), shipments.exported())

    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in text
    assert not re.search(r"<(script|img|iframe|b)\b", text)
    assert not re.search(r"/home/|/root/|/srv/|/mnt/|eves-laptop", text)
    assert ModelCard(text).data.model_name
