"""The digest of a model folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sweeper.data.identity import model_digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "chat_templates").mkdir()
    (tmp_path / "chat_templates" / "tools.jinja").write_bytes(b"t")
    return tmp_path


def test_names_and_contents_are_digested_in_the_order_of_names(folder: Path) -> None:
    entries = [("chat_templates/tools.jinja", b"t"), ("config.json", b"{}")]
    entries.append(("model.safetensors", b"weights"))
    lines = "".join(f"{name}\0{hashlib.sha256(body).hexdigest()}\n" for name, body in entries)
    assert model_digest(folder) == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "LICENSE.txt", ".gitattributes", "a.png"])
def test_prose_does_not_count(folder: Path, name: str) -> None:
    before = model_digest(folder)
    (folder / name).write_text("changed")
    assert model_digest(folder) == before


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "merges.txt", "modeling_x.py"]
)
def test_weights_configuration_tokenizer_and_code_count(folder: Path, name: str) -> None:
    before = model_digest(folder)
    (folder / name).write_text("changed")
    assert model_digest(folder) != before


def test_a_file_of_another_name_is_another_model(folder: Path) -> None:
    before = model_digest(folder)
    (folder / "config.json").rename(folder / "generation_config.json")
    assert model_digest(folder) != before
