"""A study file against the protocol on record: what both say, and nothing else."""

from __future__ import annotations

import pytest

from sweeper.study.agreed import disagreements
from sweeper.study.fingerprint import ABSENT, Difference, protocol_of

UPDATE = "records_per_update: 4"
LENGTH = "max_length: 512"
LORA = ("tune: lora", "tune: lora\nlora: {rank: 16}")
RETENTION = ("{path: data/validation.jsonl}", "{path: data/v.jsonl}\n  retention: {path: r.jsonl}")


@pytest.fixture
def agreed(load, manifest, tmp_path):
    """What was agreed on with the study as it is, or with other texts in it."""
    return lambda *changes: protocol_of(load(*changes).study, manifest, folder=tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: small", "name: other"),
        ("Is the rate too high?", "Is it?"),
        ("data/train.jsonl", "elsewhere/train.jsonl"),
        ("run: {micro_batch: 2}", "run: {micro_batch: 4, limits: {wall_clock: 2h}}"),
        ("seeds: [0, 1]", "# a remark\nseeds:\n- 0\n- 1"),
    ],
)
def test_what_is_not_agreed_may_differ_and_contents_are_in_no_file(load, agreed, old, new) -> None:
    assert disagreements(load((old, new)), agreed()) == ()


def test_a_key_that_is_given_off_its_default_is_told_with_both_values(load, agreed) -> None:
    with_difference = (UPDATE, f"{UPDATE}\nselection: {{smallest_difference: 1.0}}")

    assert disagreements(load(with_difference), agreed()) == (
        Difference("selection.smallest_difference", "0.005", "1.0"),
    )


def test_a_key_that_is_gone_is_told(load, agreed) -> None:
    assert disagreements(load(), agreed(("seeds: [0, 1]", "seeds: [0, 1, 2]"), LORA)) == (
        Difference("seeds", "[0,1,2]", "[0,1]"),
    )


def test_a_part_that_is_added_or_gone_is_told_by_its_keys(load, agreed) -> None:
    added = disagreements(load(RETENTION), agreed())
    gone = disagreements(load(), agreed(RETENTION))

    assert [each.key for each in added] == [each.key for each in gone]
    assert all(each.key.startswith("data.retention.") for each in added)
    assert Difference("data.retention.format", ABSENT, '"auto"') in added
    assert Difference("data.retention.format", '"auto"', ABSENT) in gone


def test_an_arm_that_is_added_is_told(load, agreed) -> None:
    third = ("{half: 0.5, ", "{third: 0.25, half: 0.5, ")

    assert disagreements(load(third), agreed()) == (
        Difference("compare.multiply.third", ABSENT, "0.25"),
    )


def test_a_template_is_told_where_only_one_of_them_has_it(load, agreed) -> None:
    template = (LENGTH, f"{LENGTH}\n  chat_template: template.jinja")
    with_template = agreed()
    with_template["data"]["chat_template"] = "7" * 64

    assert disagreements(load(template), with_template) == ()
    assert disagreements(load(template), agreed()) == (
        Difference("data.chat_template", "null", '"a file"'),
    )


def test_an_earlier_choice_is_told_where_only_one_of_them_has_it(load, agreed) -> None:
    taken = {**agreed(), "baseline": {"study": "first", "arm": "half"}}

    assert disagreements(load(), taken) == (Difference("baseline", '"an earlier choice"', "null"),)


def test_a_key_of_a_later_version_at_its_default_is_no_disagreement(load, agreed) -> None:
    before = agreed()
    del before["selection"]["extensions"]

    assert disagreements(load(), before) == ()


def test_nothing_is_raised_over_a_protocol_that_is_none(load) -> None:
    keys = [each.key for each in disagreements(load(), {"data": 7, "model": None})]

    assert "data.max_length" in keys
