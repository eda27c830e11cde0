"""What is left is whole, loads elsewhere, and says what it is."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from sweeper.training.adapter import adapt
from sweeper.training.folder_digest import folder_digest
from sweeper.training.options import LoraOptions
from sweeper.training.saving import save

TOKENS = torch.arange(8)[None]


@pytest.fixture
def tokenizer(tmp_path):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}")
    (folder / "special_tokens_map.json").write_text('{"pad": 0}')
    return folder


@pytest.fixture
def adapted(checkpoint):
    base = AutoModelForCausalLM.from_pretrained(checkpoint)
    model = adapt(base, LoraOptions(targets=("q_proj", "v_proj")), seed=0).model
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(0.01 if "lora_B" in name else 0.0)
    return model.eval()


def test_an_adapter_loads_onto_its_base_and_gives_the_same_logits(
    adapted, checkpoint, tmp_path, tokenizer
):
    artifact = save(adapted, tmp_path / "adapter", tokenizer=tokenizer)
    assert (artifact.kind, artifact.path) == ("adapter", "adapter")
    base = AutoModelForCausalLM.from_pretrained(checkpoint)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing")
        loaded = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    assert torch.equal(loaded(TOKENS).logits, adapted(TOKENS).logits)
    plain = AutoModelForCausalLM.from_pretrained(checkpoint)
    assert not torch.equal(plain(TOKENS).logits, adapted(TOKENS).logits)


VARIANTS = {
    "whole head": {"modules_to_save": ("lm_head", "norm")},
    "tied embeddings": {"modules_to_save": ("embed_tokens",)},
    "dora": {"dora": True},
    "patterns": {"rslora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 3.0}},
}
LOADER = """
import hashlib, json, pathlib, sys, warnings
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
torch.set_num_threads(1)
digests = {}
for folder in pathlib.Path(sys.argv[1]).iterdir():
    model = AutoModelForCausalLM.from_pretrained(folder / "base")
    model = PeftModel.from_pretrained(model, folder / "adapter").eval()
    logits = model(torch.arange(8)[None]).logits.detach()
    digests[folder.name] = hashlib.sha256(logits.numpy().tobytes()).hexdigest()
print(json.dumps(digests))
"""


@pytest.mark.slow
def test_every_kind_of_adapter_gives_the_same_bits_in_a_fresh_process(build, tmp_path):
    """Trained for one update each; the tied model's one tensor is saved and tied again."""
    expected = {name: trained_and_saved(build, tmp_path / name) for name in VARIANTS}
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADER, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(child.stdout) == expected
    assert len(set(expected.values())) == len(VARIANTS)


def trained_and_saved(build, folder):
    """Returns the digest of the logits after one update; saves base and adapter."""
    build.tiny_llama(tie_word_embeddings=folder.name == "tied embeddings").save_pretrained(
        folder / "base"
    )
    base = AutoModelForCausalLM.from_pretrained(folder / "base")
    lora = LoraOptions(rank=4, targets=("q_proj", "v_proj"), **VARIANTS[folder.name])
    model = adapt(base, lora, seed=0).model
    windows = build.windows_of(build.random_examples(4), [4])
    build.run(model, windows, options=build.training_options(0.1))
    save(model, folder / "adapter", tokenizer=None)
    logits = model.eval()(TOKENS).logits.detach()
    return hashlib.sha256(logits.numpy().tobytes()).hexdigest()


def test_a_model_loads_and_gives_the_same_logits(build, tmp_path):
    model = build.tiny_llama(seed=5).eval()
    artifact = save(model, tmp_path / "adapter", tokenizer=None)
    assert artifact.kind == "model"
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "adapter")
    assert torch.equal(loaded(TOKENS).logits, model(TOKENS).logits)


def test_the_tokenizers_files_lie_beside_the_weights(adapted, tmp_path, tokenizer):
    save(adapted, tmp_path / "adapter", tokenizer=tokenizer)
    names = {path.name for path in (tmp_path / "adapter").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "tokenizer.json"} <= names
    assert "special_tokens_map.json" in names


def test_the_targets_are_written_in_order(adapted, tmp_path):
    save(adapted, tmp_path / "adapter", tokenizer=None)
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["target_modules"] == ["q_proj", "v_proj"]


def test_nothing_but_the_folder_is_left(adapted, tmp_path):
    target = tmp_path / "attempt" / "adapter"
    target.parent.mkdir()
    save(adapted, target, tokenizer=None)
    assert [path.name for path in target.parent.iterdir()] == ["adapter"]


def test_the_digest_is_over_names_and_contents(tmp_path):
    (tmp_path / "b").write_bytes(b"two")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "c").write_bytes(b"one")
    one, two = hashlib.sha256(b"one").hexdigest(), hashlib.sha256(b"two").hexdigest()
    expected = hashlib.sha256(f"a/c\0{one}\nb\0{two}\n".encode()).hexdigest()
    assert folder_digest(tmp_path) == expected


def test_the_artifacts_digest_is_that_of_the_folder_and_the_same_each_time(adapted, tmp_path):
    first = save(adapted, tmp_path / "adapter", tokenizer=None)
    second = save(adapted, tmp_path / "again", tokenizer=None)
    assert first.sha256 == second.sha256 == folder_digest(tmp_path / "adapter")


def test_an_existing_folder_is_never_written_over(adapted, tmp_path):
    (tmp_path / "adapter").mkdir()
    with pytest.raises(FileExistsError, match="an attempt never writes twice"):
        save(adapted, tmp_path / "adapter", tokenizer=None)


def test_a_save_that_fails_leaves_nothing(adapted, tmp_path):
    with pytest.raises(FileNotFoundError):
        save(adapted, tmp_path / "adapter", tokenizer=tmp_path / "no tokenizer here")
    assert list(tmp_path.iterdir()) == []


def test_a_save_killed_half_way_leaves_no_folder_and_the_next_one_is_whole(
    adapted, tmp_path, tokenizer, monkeypatch
):
    """The child dies by signal 9 after the weights are written and before the rename."""
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(shutil, "copytree", lambda *_, **__: os.kill(os.getpid(), 9))
        save(adapted, tmp_path / "adapter", tokenizer=tokenizer)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert (tmp_path / ".adapter.partial" / "adapter_model.safetensors").is_file()
    assert not (tmp_path / "adapter").exists()
    artifact = save(adapted, tmp_path / "adapter", tokenizer=tokenizer)
    assert artifact.sha256 == folder_digest(tmp_path / "adapter")
    assert not (tmp_path / ".adapter.partial").exists()


def test_weights_may_be_read_by_whoever_may_read_their_configuration(adapted, tmp_path, tokenizer):
    before = os.umask(0o022)
    try:
        save(adapted, tmp_path / "adapter", tokenizer=tokenizer)
    finally:
        os.umask(before)

    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "adapter").iterdir()}
    assert modes["adapter_model.safetensors"] == 0o644
    assert set(modes.values()) == {0o644}
