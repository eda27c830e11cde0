"""What studies are told, word by word, as texts for people to read: `golden/*.txt`.

Each file was read for truth against the losses below, and for its English. A text that changes is
read again before its file does.
"""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import QuestionKind, StudyKind

GOLDEN = Path(__file__).parent / "golden"

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]
HIGHER = [1.641, 1.632, 1.655, 1.640, 1.637]
QUARTER = [1.594, 1.591, 1.597, 1.600, 1.586]
DIVERGED = [Reason.DIVERGED] * 5


def to_end(final):
    """Validation losses on the way to the final one, at quarters of the budget."""
    return [2.1, final + 0.2, final + 0.08, final + 0.02, final]


def with_way(study, follow):
    """The study with losses along the way; a stopped trial has had two evaluations."""
    ways = {
        arm.name: [
            [2.1, 3.4] if cell.endpoint is None else to_end(cell.endpoint)
            for cell in study.cells_of(arm.name)
        ]
        for arm in study.arms
    }
    return follow(dataclasses.replace(study, rate_decays=True), ways)


def one_arm_failed(make_study, **_):
    return make_study({"half": HALF, "baseline": BASELINE, "double": DIVERGED})


def all_failed(make_study, **_):
    return make_study({"half": DIVERGED, "baseline": DIVERGED, "double": DIVERGED})


def baseline_failed(make_study, **_):
    baseline = [Reason.NONFINITE_LOSS, *BASELINE[1:]]
    return make_study({"half": HALF, "baseline": baseline, "double": DIVERGED})


def one_seed(make_study, **_):
    return make_study({"half": HALF[:1], "baseline": BASELINE[:1], "double": HIGHER[:1]})


def three_seeds(make_study, **_):
    losses = {"half": HALF, "baseline": BASELINE, "double": HIGHER}
    study = make_study({arm: entries[:3] for arm, entries in losses.items()})
    return dataclasses.replace(study, weight_decay=0.01)


def an_extension(make_study, **_):
    losses = {"half": HALF, "baseline": BASELINE, "double": HIGHER, "x0.25": QUARTER}
    return make_study(losses, extensions=1, question=QuestionKind.WHICH)


def before_an_extension(make_study, **_):
    losses = {"half": HALF, "baseline": BASELINE, "double": HIGHER}
    return make_study(losses, extensions=1, question=QuestionKind.WHICH, closed=False)


def equal_losses(make_study, **_):
    return make_study({"half": BASELINE, "baseline": BASELINE, "double": BASELINE})


def a_limited_arm(make_study, **_):
    limited = [*HIGHER[:3], Reason.DEVICE_MEMORY, Reason.WALL_CLOCK]
    return make_study({"half": HALF, "baseline": BASELINE, "double": limited})


def a_killed_machine(make_study, alter, **_):
    killed = [*HALF[:4], Reason.KILLED]
    study = make_study({"half": killed, "baseline": BASELINE, "double": HIGHER}, closed=False)
    detail = "killed by SIGKILL, which sweeper did not send"
    return alter(study, "half", 4, detail=detail)


def a_broken_gate(make_study, alter, **_):
    study = make_study({"half": HALF, "baseline": BASELINE, "double": HIGHER})
    return alter(study, "half", 2, target_tokens_applied=993_800, skipped=2, windows=400)


def equivalent_arms(make_study, retain, **_):
    half = [1.600, 1.602, 1.606, 1.608, 1.590]
    study = make_study({"half": half, "baseline": BASELINE, "double": HIGHER})
    baseline = [3.100, 3.120, 3.080, 3.110, 3.090]
    return retain(
        study,
        {
            "half": [3.104, 3.129, 3.086, 3.121, 3.095],
            "baseline": baseline,
            "double": [loss + 0.05 + seed / 500 for seed, loss in enumerate(baseline)],
        },
    )


def only_on_these_records(make_study, score, **_):
    study = make_study({"half": HALF, "baseline": BASELINE})
    signs = [-1 if place % 2 else 1 for place in range(60)]
    sums = {
        (cell.arm, cell.seed): [
            20 * (cell.endpoint + (0.1 * sign if cell.arm == "half" else 0.0)) for sign in signs
        ]
        for cell in study.cells
    }
    return score(study, [20] * 60, [f"{place:02}" for place in range(60)], sums)


def three_precisions(make_study, alter, **_):
    """Another precision is better, and a third skipped windows and starts elsewhere by rounding."""
    values = {"baseline": "float32", "bf16": "bfloat16", "fp16": "float16"}
    study = make_study(
        {"baseline": BASELINE, "bf16": HALF, "fp16": HIGHER},
        values=values,
        kind=StudyKind.PRECISION,
        factor="training.precision",
        question=QuestionKind.WHICH,
        question_text="Which precision?",
    )
    starts = {"baseline": 2.1, "bf16": 2.1005, "fp16": 2.1}
    cells = tuple(
        dataclasses.replace(
            cell,
            initial_loss=starts[cell.arm],
            environment={"device": "H200", "precision": values[cell.arm]},
            configuration={"training.precision": f'"{values[cell.arm]}"'},
        )
        for cell in study.cells
    )
    study = dataclasses.replace(study, cells=cells)
    return alter(study, "fp16", 1, target_tokens_applied=997_500, skipped=1, windows=400)


STUDIES = (
    one_arm_failed,
    all_failed,
    baseline_failed,
    one_seed,
    three_seeds,
    before_an_extension,
    an_extension,
    equal_losses,
    a_limited_arm,
    a_killed_machine,
    a_broken_gate,
    equivalent_arms,
    only_on_these_records,
    three_precisions,
)


def told(found):
    """Everything a comparison says in words."""
    times = [found.baseline_time_to_target, *(arm.time_to_target for arm in found.arms)]
    lines = [
        f"Answer: {found.answer.sentence}",
        *(f"{arm.arm} [{arm.verdict.label}]: {arm.verdict.sentence}" for arm in found.arms),
        f"Choice: {found.choice.sentence}",
        *([f"Range: {found.boundary.sentence}"] if found.boundary else []),
        *(f"Range: {note}" for note in found.rate_notes),
        *(f"Retention: {arm.retention.sentence}" for arm in found.arms),
        *(f"Resolution: {arm.resolution}" for arm in found.arms),
        f"Time: {found.target.sentence}",
        *(f"Time: {time.sentence}" for time in times if time),
        *([f"Time: {found.target_caveat}"] if any(times) and found.target_caveat else []),
        *(f"End: {slope.sentence}" for slope in (found.baseline_slope,) if slope),
        *(f"End: {arm.slope.sentence}" for arm in found.arms if arm.slope),
        *(f"Records: {arm.examples.sentence}" for arm in found.arms if arm.examples),
        *([f"Decay: {found.effective_decay.sentence}"] if found.effective_decay else []),
        *(f"Note: {note}" for arm in found.arms for note in arm.notes),
    ]
    wrapped = [textwrap.fill(line, 96, subsequent_indent="    ") for line in lines]
    return "\n".join(dict.fromkeys(wrapped)) + "\n"


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.__name__)
def test_a_study_is_told_as_it_was_read(make_study, follow, alter, retain, score, study):
    built = study(make_study=make_study, alter=alter, retain=retain, score=score)

    text = told(compare(with_way(built, follow)))

    assert text == (GOLDEN / f"{study.__name__}.txt").read_text("utf-8")


def test_every_text_has_its_study():
    assert {file.stem for file in GOLDEN.iterdir()} == {study.__name__ for study in STUDIES}
