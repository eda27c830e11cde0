"""The table of arms for a paper: counts and spreads beside numbers, a caption that says what."""

import dataclasses
import re

import pytest

import sweeper
from sweeper.report.arm_sheet import arm_sheet
from sweeper.report.formats import latex_text
from sweeper.report.recorded import recorded_settings


def sheet_of(recorded):
    settings = recorded_settings(recorded.folder)
    return arm_sheet(sweeper.compare(recorded.file), settings, budget_target_tokens=30)


@pytest.fixture(scope="module")
def sheet(finished):
    return sheet_of(finished)


def row(sheet, arm):
    """The row as text by header."""
    cells = next(cells for cells in sheet.rows if cells[0].text == arm)
    return dict(zip(sheet.headers, [cell.text for cell in cells], strict=True))


def test_arms_stand_in_the_order_of_the_rate(sheet):
    assert [cells[0].text for cells in sheet.rows] == ["half", "baseline", "double"]


def test_a_number_has_its_spread_and_its_counts_beside_it(sheet):
    assert row(sheet, "half") == {
        "arm": "half",
        "learning rate": "0.0001",
        "completed": "3/3",
        "failed (95 % CI)": "0/3 (0 % to 71 %)",
        "validation loss (sd)": "2.0703 (0.0703)",
        "best loss": "2.0703",
        "capped mean": "2.0703",
        "difference (95 % CI)": "0.508 (0.488 to 0.527)",
        "Holm p": "0.0001578",
        "lower in": "0/3",
        "tokens to target": "not reached",
        "s/1k target tokens": "25",
        "retention difference (upper bound)": "0.0156 (0.0420)",
        "verdict": "worse:provisional",
    }


def test_an_arm_without_a_completed_trial_has_no_mean_and_says_so(sheet):
    double = sheet.rows[2]

    assert (double[4].text, double[4].mark) == ("-", "completed only, 0 of 3")
    assert row(sheet, "double")["difference (95 % CI)"] == ""


def test_a_mean_over_survivors_is_marked(begun):
    half = sheet_of(begun).rows[0]

    assert (half[4].text, half[4].mark) == ("1.7500", "completed only, 1 of 3")
    assert (half[5].text, half[5].mark) == ("1.7500", "completed only, 1 of 3")
    assert (half[7].text, half[7].mark) == ("0.25", "1 of 3 pairs")


@pytest.mark.parametrize(
    ("is_at_best", "header", "text", "note"),
    [
        (False, "best loss", "1.5000", "Best loss: the mean at the checkpoint with the lowest"),
        (True, "last loss", "1.7500", "Last loss: the mean at the checkpoint at the end of the"),
    ],
)
def test_the_losses_of_both_checkpoints_are_told(finished, is_at_best, header, text, note):
    """Whichever one counts, the other stands beside it."""
    found = sweeper.compare(finished.file)
    baseline = dataclasses.replace(found.baseline, mean_last=1.75, mean_best=1.5)
    told = dataclasses.replace(found, baseline=baseline, is_at_best=is_at_best)

    made = arm_sheet(told, recorded_settings(finished.folder), budget_target_tokens=30)

    assert row(made, "baseline")[header] == text
    assert note in " ".join(made.notes)


@pytest.mark.parametrize(
    "said",
    [
        "3 seeds each",
        "Across seeds vary data order, initialisation and dropout together",
        "Fixed: model base, LoRA, rank 16, alpha 32, 30 target tokens read per trial",
        "validation split, nats per target token, at the checkpoint at the end of the budget",
        "95 % interval by Student's t",
        "Clopper-Pearson interval",
        "Holm p over 2 planned arms",
        "The target is 1.625 nats per target token",
        "Answer: No, provisionally",
    ],
)
def test_the_caption_says(sheet, said):
    assert said in " ".join([sheet.caption, *sheet.notes])


@pytest.mark.parametrize(
    ("precisions", "said"),
    [
        (("float32",), "precision float32, "),
        (("bfloat16", "float32"), "precision bfloat16 and float32 (not the same in every trial), "),
        ((), "precision auto (no trial has run), "),
    ],
)
def test_the_precision_is_the_one_that_trials_ran_in(finished, precisions, said):
    """The study file says auto."""
    found = dataclasses.replace(sweeper.compare(finished.file), precisions=precisions)

    made = arm_sheet(found, recorded_settings(finished.folder), budget_target_tokens=30)

    assert said in " ".join(made.notes)


def test_the_noise_floor_is_told_and_no_row(studies, tmp_path):
    recorded = studies.finish(tmp_path)
    studies.add_repeat(recorded)
    with recorded.open() as store:
        studies.complete(store, studies.REPEAT, losses=(2.5, 2.0, 1.75))

    sheet = sheet_of(recorded)

    assert len(sheet.rows) == 3
    assert sheet.notes[-1].startswith("The noise floor is 0.25 nats per target token")


def test_in_latex_every_row_has_all_cells(sheet):
    rows = [line for line in latex_text(sheet).splitlines() if line.endswith(" \\\\")]

    assert [len(re.findall(r"(?<!\\)&", line)) for line in rows] == [13, 13, 13, 13]


@pytest.mark.parametrize(("value", "is_number"), [(0.0002, True), ("float32", False)])
def test_a_factor_in_words_is_set_as_words(finished, value, is_number):
    found = sweeper.compare(finished.file)
    baseline = dataclasses.replace(found.baseline, value=value)
    settings = recorded_settings(finished.folder)

    made = arm_sheet(
        dataclasses.replace(found, baseline=baseline), settings, budget_target_tokens=30
    )

    assert made.numeric[made.headers.index("learning rate")] is is_number
