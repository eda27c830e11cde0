"""The model and the template that data were prepared with."""

from __future__ import annotations

import pytest

from sweeper.data.identity import model_digest
from sweeper.study.inputs import changed_inputs, stamp
from sweeper.study.places import prepare_request


@pytest.fixture
def templated(load, tmp_path):
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    study = load(("max_length: 512", "max_length: 512\n  chat_template: chat.jinja")).study
    return prepare_request(study, tmp_path)


def test_a_changed_template_is_named(templated, manifest, tmp_path) -> None:
    before = stamp(templated)
    (tmp_path / "chat.jinja").write_text("{{ messages[0] }}")

    told = [str(fault) for fault in changed_inputs(before, templated, manifest)]

    assert told == [
        (
            f"{(tmp_path / 'chat.jinja').resolve()}: not the chat template that the"
            f" study was prepared"
            " with. Put it back, or run another study: `--as NEW-NAME`, or"
            " `--replace` while no trial has ended."
        )
    ]


def test_a_hub_id_is_the_same_model_while_it_is_the_same_id(load, manifest, tmp_path) -> None:
    first = prepare_request(load(("models/tiny", "org/tiny")).study, tmp_path)
    second = prepare_request(load(("models/tiny", "org/other")).study, tmp_path)
    before = stamp(first)

    assert list(changed_inputs(before, first, manifest)) == []
    assert [fault.where for fault in changed_inputs(before, second, manifest)] == ["org/other"]


def test_a_model_folder_that_moved_unchanged_is_the_same_model(load, manifest, tmp_path) -> None:
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    before = stamp(prepare_request(load().study, tmp_path))
    prepared_with = manifest.model_copy(update={"model_digest": model_digest(folder)})
    folder.rename(tmp_path / "moved")

    request = prepare_request(load(("models/tiny", "./moved")).study, tmp_path)

    assert list(changed_inputs(before, request, prepared_with)) == []
