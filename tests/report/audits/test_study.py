"""The run folder's study file, which reading commands go by, against the protocol on record."""

from __future__ import annotations

import pytest

RATE = "{learning_rate: 2e-4, "


@pytest.fixture
def rewrite(decided):
    """Changes the study file in the run folder."""

    def run(old, new):
        file = decided.folder.recorded_study
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    return run


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "selection: {",
            "selection: {smallest_difference: 1.0, ",
            "selection.smallest_difference 1.0, the protocol on record 0.005.",
        ),
        ("seeds: [0, 1, 2, 3, 4]", "seeds: [0]", "seeds [0], the protocol on record [0,1,2,3,4]."),
        (
            "baseline: 1}",
            "baseline: 1, third: 0.3}",
            "compare.multiply.third 0.3, the protocol on record none.",
        ),
        (
            "half: 0.5, baseline: 1}",
            "baseline: 1, other: 2}",
            "no compare.multiply.half, the protocol on record 0.5.",
        ),
    ],
    ids=["rule", "seeds", "one arm more", "one arm less"],
)
def test_a_key_that_is_not_as_it_was_agreed(decided, rewrite, findings, old, new, found):
    rewrite(old, new)

    assert f"study.yaml in the run folder has {found}" in findings(decided, "The protocol")


def test_every_key_that_differs_is_told(decided, rewrite, findings):
    rewrite(RATE, "{learning_rate: 3e-4, ")
    rewrite("retention_margin: 0.5", "retention_margin: 0.25")

    begins = "study.yaml in the run folder has"
    assert findings(decided, "The protocol") == [
        f"{begins} selection.retention_margin 0.25, the protocol on record 0.5.",
        f"{begins} training.learning_rate 0.0003, the protocol on record 0.0002.",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: rates", "name: other"),
        ("Nobody has looked.", "Nobody has looked so far."),
        ("max_resumes: 0", "max_resumes: 3, limits: {wall_clock: 4h}"),
        ("train.jsonl", "/elsewhere/train.jsonl"),
    ],
    ids=["name", "prose", "how it runs", "path"],
)
def test_what_is_not_part_of_the_protocol_may_differ(decided, rewrite, findings, old, new):
    rewrite(old, new)

    assert findings(decided, "The protocol") == []


def test_a_limit_that_was_raised_by_hand_is_on_record_and_no_finding(decided, findings):
    with decided.open() as store:
        store.amend({"wall_clock": "4h"}, [])

    assert findings(decided, "The protocol") == []
    assert findings(decided, "Changes by hand") == []


def test_a_file_that_is_no_study_any_more(decided, findings):
    decided.folder.recorded_study.write_text("name: rates\n", encoding="utf-8")

    assert any("study.yaml" in each for each in findings(decided, "The protocol"))
    assert findings(decided, "Arms, seeds and cells") == [
        "They are not compared: the study file in the run folder cannot be read."
    ]
