"""What names and patterns mean, and that none of them means nothing."""

import pytest

from sweeper.errors import ModelError
from sweeper.training.options import LoraOptions
from sweeper.training.targets import choose


def chosen(model, **settings):
    return choose(model, LoraOptions(**{"targets": ("q_proj", "v_proj")} | settings))


def faults_of(model, **settings):
    with pytest.raises(ModelError) as caught:
        chosen(model, **settings)
    return caught.value.faults


def test_each_setting_is_told_with_the_modules_that_it_means(build):
    choice = chosen(
        build.tiny_llama(),
        rank_pattern={"v_proj": 8},
        alpha_pattern={r"layers\.1\..*": 4.0},
        modules_to_save=("lm_head",),
    )
    first, second = "model.layers.0.self_attn.", "model.layers.1.self_attn."
    assert choice.matched == {
        "lora.targets: q_proj": (f"{first}q_proj", f"{second}q_proj"),
        "lora.targets: v_proj": (f"{first}v_proj", f"{second}v_proj"),
        "lora.rank_pattern: v_proj": (f"{first}v_proj", f"{second}v_proj"),
        r"lora.alpha_pattern: layers\.1\..*": (f"{second}q_proj", f"{second}v_proj"),
        "lora.modules_to_save: lm_head": ("lm_head",),
    }
    assert not choice.ties


def test_every_listed_name_must_match_and_all_that_do_not_are_named_at_once(build):
    faults = faults_of(build.tiny_llama(), targets=("q_proj", "vproj", "FAKE"))
    assert [fault.got for fault in faults] == ["vproj", "FAKE"]
    assert faults[0].where == "lora.targets"
    assert faults[0].hint == "Did you mean v_proj?"
    assert "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj" in faults[1].expected


def test_names_of_all_kinds_that_mean_nothing_come_in_one_answer(build):
    faults = faults_of(
        build.tiny_llama(),
        targets=("q_proj", "vproj"),
        rank_pattern={"qproj": 8},
        alpha_pattern={"q_proj": 4.0, "nope": 1.0},
        modules_to_save=("lmhead",),
    )
    assert [(fault.where, fault.got) for fault in faults] == [
        ("lora.targets", "vproj"),
        ("lora.modules_to_save", "lmhead"),
        ("lora.rank_pattern", "qproj"),
        ("lora.alpha_pattern", "nope"),
    ]
    assert [fault.hint for fault in faults[:3]] == [
        "Did you mean v_proj?",
        "Did you mean lm_head?",
        "Did you mean q_proj?",
    ]


def test_a_key_must_match_a_module_that_carries_an_adapter(build):
    """The model has a k_proj, but nothing is put on it."""
    (fault,) = faults_of(build.tiny_llama(), rank_pattern={"k_proj": 8})
    assert fault.what == "the key matches no adapted module"
    assert fault.expected == "one of q_proj, v_proj"


def test_two_keys_for_one_module_are_refused_whatever_their_order(build):
    keys = {"q_proj": 8, r"layers\.0\..*": 2}
    turned = dict(reversed(keys.items()))
    (fault,) = faults_of(build.tiny_llama(), rank_pattern=keys)
    assert fault.what == "several keys match one module, so that their order would decide"
    assert fault.expected == "one key for model.layers.0.self_attn.q_proj"
    assert len(faults_of(build.tiny_llama(), rank_pattern=turned)) == 1


@pytest.mark.parametrize("name", ["rank_pattern", "alpha_pattern"])
def test_a_key_that_is_no_regular_expression_is_refused(name, build):
    (fault,) = faults_of(build.tiny_llama(), **{name: {"(q_proj": 8}})
    assert fault.what.startswith("the key is no regular expression")
    assert fault.where == f"lora.{name}"


def test_all_linear_leaves_out_what_is_trained_whole(build):
    choice = chosen(build.tiny_llama(), targets="all-linear", modules_to_save=("q_proj",))
    assert len(choice.adapted) == 12
    assert choice.saved == ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj")


def test_a_target_that_is_trained_whole_everywhere_is_refused(build):
    (fault,) = faults_of(build.tiny_llama(), modules_to_save=("q_proj",))
    assert fault.what == "every module that the target means is trained whole already"
    assert fault.got == "q_proj"


def test_a_module_and_a_part_of_it_are_not_both_trained_whole(build):
    faults = faults_of(
        build.tiny_llama(), targets=("q_proj",), modules_to_save=("mlp", "down_proj")
    )
    assert {fault.what for fault in faults} == {
        "one module that is to be trained whole is a part of another"
    }


@pytest.mark.parametrize("name", ["layers", "rotary_emb"])
def test_what_has_no_weights_or_cannot_be_called_is_not_trained_whole(name, build):
    (fault,) = faults_of(build.tiny_llama(), modules_to_save=(name,))
    assert fault.what == "the module has no weights of its own that can be trained whole"


def test_a_tied_embedding_inside_a_module_trained_whole_is_refused(build):
    model = build.tiny_llama(tie_word_embeddings=True)
    faults = faults_of(model, targets=("lm_head",), modules_to_save=("model",))
    assert [fault.got for fault in faults] == ["lm_head", "model.embed_tokens"]
