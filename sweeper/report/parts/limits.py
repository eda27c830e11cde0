"""What the conclusions do not say: limits and caveats, only those that apply to the study."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sweeper.report.dossier import Dossier
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.choice import ChoiceKind
from sweeper.selection.evidence import CellEvidence, StudyKind
from sweeper.selection.wording import listing, p_text, plain
from sweeper.study.taken_choice import sealed_test

_FEWEST_FOR_SIGN_FLIP = 6
"""Seeds with which an exact sign-flip test can reach 5 %."""


def limits(dossier: Dossier) -> list[str]:
    """Returns the caveats, as sentences."""
    return [sentence for limit in _LIMITS for sentence in limit(dossier)]


def _these_settings(dossier: Dossier) -> Iterator[str]:
    yield (
        "The answer holds for the settings that were held fixed, listed above: at another model, "
        f"rank, {_settings_beside(dossier.comparison.kind)}, data set or budget it may be another."
    )
    if dossier.comparison.kind is StudyKind.RATE:
        yield (
            "A rate that is best here is not carried over to another batch size, precision or "
            "method: those are studies of their own."
        )


def _settings_beside(kind: StudyKind) -> str:
    """Names the settings of training that another study may compare."""
    named = {
        StudyKind.RATE: "batch size, schedule, precision",
        StudyKind.BATCH_SIZE: "rate, schedule, precision",
        StudyKind.PRECISION: "rate, batch size, schedule",
    }
    return named[kind]


def _one_data_set(dossier: Dossier) -> Iterator[str]:
    n = len(dossier.comparison.seeds)
    varied = "Seeds vary data order, initialisation and dropout together"
    if n == 1:
        yield f"{varied}: with one seed nothing was repeated."
    else:
        yield f"{varied}: {n} seeds are {n} repeats on this data set, and not {n} data sets."


def _earlier_choice(dossier: Dossier) -> Iterator[str]:
    taken = dossier.taken
    if taken is not None:
        yield (
            f"The baseline's rate, {plain(taken.learning_rate)}, is the frozen choice of study "
            f"{taken.study}, its arm {taken.arm}: what that study could not show is not shown here."
        )
        yield from taken.cautions(sealed_test(dossier.recorded.protocol))


def _equal_budget(dossier: Dossier) -> Iterator[str]:
    found = dossier.comparison
    if found.kind is StudyKind.RATE:
        yield (
            "All arms were given the same number of target tokens. Training that ends early "
            "favours a higher rate, and training that goes on for long a lower one."
        )
    if found.kind is StudyKind.BATCH_SIZE:
        summaries = (found.baseline, *(arm.summary for arm in found.arms))
        made = listing([f"{each.arm} {each.windows - each.skipped}" for each in summaries])
        yield (
            "At the same number of target tokens the arms made different numbers of updates: "
            f"{made} in all their trials together."
        )
    if found.kind is StudyKind.PRECISION:
        yield (
            "Every arm was trained and evaluated in its own precision: what evaluating in it does "
            "to a loss is part of every difference, and is there before the first update."
        )
    slopes = (found.baseline_slope, *(arm.slope for arm in found.arms))
    yield from (slope.sentence for slope in slopes if slope is not None)


def _normality(dossier: Dossier) -> Iterator[str]:
    tested = [
        arm for arm in dossier.comparison.arms if arm.difference and arm.difference.is_testable
    ]
    if not tested:
        return
    yield (
        "Intervals and p values take the seeds' differences as drawn from a normal distribution, "
        "which so few cannot show."
    )
    if max(arm.difference.n for arm in tested if arm.difference) < _FEWEST_FOR_SIGN_FLIP:
        yield "With fewer than 6 seeds no test of signs, which needs no such thing, reaches 5 %."
    else:
        yield f"Exact sign-flip tests: {listing([_sign_flip(arm) for arm in tested])}."


def _sign_flip(arm: ArmComparison) -> str:
    p = None if arm.difference is None else arm.difference.sign_flip_p
    return f"{arm.arm} {'not made' if p is None else p_text(p)}"


def _intervals_disagree(dossier: Dossier) -> Iterator[str]:
    for arm in dossier.comparison.arms:
        found = arm.difference
        if found is None or found.p_holm is None or found.simultaneous is None:
            continue
        touches = found.simultaneous.low <= 0 <= found.simultaneous.high
        if found.p_holm <= 0.05 and touches:
            yield (
                f"For {arm.arm} the Holm test finds a difference, and the interval that counts all "
                "arms still touches 0: the two rules do not draw the line at the same place."
            )


def _noise(dossier: Dossier) -> Iterator[str]:
    floor = dossier.comparison.noise_floor
    yield (
        floor.sentence
        if floor is not None
        else (
            "The noise floor was not measured: by how much two runs of the same trial differ on "
            "this machine is not known."
        )
    )


def _decay(dossier: Dossier) -> Iterator[str]:
    decay = dossier.comparison.effective_decay
    if decay is not None:
        yield decay.sentence


def _schedule(dossier: Dossier) -> Iterator[str]:
    schedule = dossier.settings.training.schedule
    if dossier.comparison.kind is StudyKind.RATE and schedule.kind != "constant":
        yield (
            f"An arm's rate is the peak of its {schedule.kind} schedule, which ends at "
            f"{schedule.final:g} of it: the whole schedule is scaled with it."
        )


def _not_quality(_: Dossier) -> Iterator[str]:
    yield ("Validation loss is not the quality of what the model writes: nothing is said of that.")


def _stop_rule(dossier: Dossier) -> Iterator[str]:
    stopped = [cell for cell in dossier.evidence.all_cells() if cell.is_stopped]
    if not stopped:
        return
    rule = dossier.settings.stop.diverged
    yield (
        "That a trial was stopped depends on rules agreed beforehand: among them, diverged is a "
        f"validation loss {plain(rule.nats_above_initial)} nats above the initial one at "
        f"{rule.evaluations} evaluations in a row. Last finite losses: "
        f"{listing([_last_loss(cell) for cell in stopped])}."
    )


def _last_loss(cell: CellEvidence) -> str:
    last = "none" if cell.last_finite_loss is None else plain(cell.last_finite_loss)
    return f"{cell.arm}/{cell.seed} {last}"


def _time_to_target(dossier: Dossier) -> Iterator[str]:
    if dossier.comparison.target_caveat is not None and dossier.comparison.target.loss is not None:
        caveat = dossier.comparison.target_caveat
        yield f"Times to the target loss hold {caveat[0].lower()}{caveat[1:]}"


def _margins(dossier: Dossier) -> Iterator[str]:
    found = dossier.comparison
    yield (
        f"The differences declared to matter, {plain(found.smallest_difference)} nats of "
        f"validation loss and {plain(found.retention_margin)} of retention loss, are part of the "
        "study's fingerprint: they were fixed before the first trial."
    )


def _extensions(dossier: Dossier) -> Iterator[str]:
    later = [arm for arm in dossier.comparison.arms if arm.summary.round > 0]
    if later:
        names = listing([f"{arm.arm} (round {arm.summary.round})" for arm in later])
        yield (
            f"{names} followed because of what was found before. The family of tests grew with it, "
            "and the test split stayed sealed."
        )


def _skips(dossier: Dossier) -> Iterator[str]:
    found = dossier.comparison
    skipping = [s for s in (found.baseline, *(a.summary for a in found.arms)) if s.skipped]
    if skipping:
        counts = listing([f"{s.arm} {s.skipped} of {s.windows} windows" for s in skipping])
        yield (
            f"Windows that ended in no update: {counts}. Where they are the rate's doing they are "
            "part of its effect, and no accident that could be taken out."
        )


def _examples(dossier: Dossier) -> Iterator[str]:
    arms = dossier.comparison.arms
    known = [arm.examples for arm in arms if arm.examples is not None]
    lost = [arm.examples_left_out for arm in arms if arm.examples_left_out is not None]
    if not known and not lost:
        yield (
            "The losses of single validation records are not compared here: intervals are about "
            "other seeds, and not about other validation records."
        )
    yield from (examples.sentence for examples in known)
    yield from lost


def _selection(dossier: Dossier) -> Iterator[str]:
    found = dossier.comparison
    if found.is_at_best:
        yield (
            "Losses are those of the evaluation at which each trial's was lowest, which is "
            "optimistic in every arm by about the noise of an evaluation."
        )
    if found.choice.kind is ChoiceKind.BETTER:
        yield (
            "The result is the mean of the chosen arm. Passing on its best seed would be one "
            "selection more, on the same split."
        )


_LIMITS: tuple[Callable[[Dossier], Iterator[str]], ...] = (
    _these_settings,
    _earlier_choice,
    _equal_budget,
    _one_data_set,
    _normality,
    _intervals_disagree,
    _noise,
    _decay,
    _schedule,
    _not_quality,
    _stop_rule,
    _time_to_target,
    _margins,
    _extensions,
    _skips,
    _examples,
    _selection,
)
