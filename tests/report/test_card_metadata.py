"""The head of a model card, as the hub's own reader takes it."""

import pytest
from huggingface_hub import ModelCard

from sweeper.report.card_metadata import metadata, quoted

HOSTILE = [
    'a "quoted": name # and more',
    "yes",
    "1e-4",
    "12:30",
    "---",
    "- a list\n---\nlicense: mit",
    "Größe 数字 \U0001f42d",
    "back\\slash and \\u0041",
    "tab\t, bell\x07, delete\x7f, next line\x85, separator\u2028, mark\ufeff",
    "{curly: [and, square]}",
    "&anchor *alias !!python/name:os.system",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_is_read_back_as_it_was(name):
    card = ModelCard(metadata({"model_name": name, "tags": ["lora", name]}) + "\n# Text\n")

    assert card.data.model_name == name
    assert card.data.tags == ["lora", name]
    assert card.data.get("license") is None
    assert card.text.strip() == "# Text"


def test_half_a_character_is_replaced():
    assert quoted("a\ud83db") == '"a\ufffdb"'


def test_every_text_stands_in_quotes():
    assert metadata({"library_name": "peft", "tags": ["lora"]}) == (
        '---\nlibrary_name: "peft"\ntags:\n- "lora"\n---\n'
    )
