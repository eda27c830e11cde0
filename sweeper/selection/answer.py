"""The answer line: what the verdicts say to the study's question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.choice import Choice, ChoiceKind
from sweeper.selection.evidence import BASELINE, QuestionKind, StudyEvidence
from sweeper.selection.sentences import on_this_split
from sweeper.selection.verdicts import BETTER_KINDS, WORSE_KINDS, VerdictKind
from sweeper.selection.wording import amount, away, interval_text, listing, plain, seeds_text


class AnswerWord(StrEnum):
    """The answer itself; a question of which arm is answered by naming one or none."""

    YES = "yes"
    NO = "no"
    NOT_SHOWN = "not_shown"
    ARM = "arm"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the study's question.

    Attributes:
        arm: The arm named, for a question of which.
        is_provisional: Whether only provisional verdicts speak for it.
    """

    word: AnswerWord
    arm: str | None = None
    is_provisional: bool = False
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Support:
    """A verdict that speaks for yes or for no, as a clause."""

    arm: ArmComparison
    clause: str


def answer_question(study: StudyEvidence, arms: Sequence[ArmComparison], choice: Choice) -> Answer:
    """Returns the answer; while trials are still missing nothing is shown yet."""
    if study.question is QuestionKind.WHICH:
        found = _which(study, arms, choice)
    elif study.is_pending:
        return Answer(word=AnswerWord.NOT_SHOWN, sentence=f"Not shown. {choice.sentence}")
    else:
        lower, higher = _sides(study, arms)
        asked, other = (
            (lower, higher) if study.question is QuestionKind.RATE_TOO_HIGH else (higher, lower)
        )
        found = _too_far(study, asked, other, choice)
    return replace(found, sentence=found.sentence + _partial(study))


def _partial(study: StudyEvidence) -> str:
    """Says so when a study was closed over trials that are missing."""
    cells = study.all_cells()
    missing = sum(cell.is_missing for cell in cells)
    if study.is_pending or not missing:
        return ""
    verb = "is" if missing == 1 else "are"
    return f" Partial: {missing} of {len(cells)} trials {verb} missing."


def _which(study: StudyEvidence, arms: Sequence[ArmComparison], choice: Choice) -> Answer:
    """The choice answers; where it does not say by how much arms differ, that is added."""
    word = AnswerWord.NONE if choice.arm is None else AnswerWord.ARM
    is_enough = study.is_pending or choice.kind is ChoiceKind.BETTER
    found = "" if is_enough else f" Found: {_findings(study, arms)}."
    return Answer(word=word, arm=choice.arm, sentence=choice.sentence + found)


def _sides(
    study: StudyEvidence, arms: Sequence[ArmComparison]
) -> tuple[list[ArmComparison], list[ArmComparison]]:
    """The arms below and above the baseline, the nearest first."""
    values = {arm.name: arm.number for arm in study.arms}
    centre = values[BASELINE]
    if centre is None:
        return [], []
    known = [(value, arm) for arm in arms if (value := values[arm.arm]) is not None]
    lower = sorted((pair for pair in known if pair[0] < centre), key=lambda pair: -pair[0])
    higher = sorted((pair for pair in known if pair[0] > centre), key=lambda pair: pair[0])
    return [arm for _, arm in lower], [arm for _, arm in higher]


def _too_far(
    study: StudyEvidence,
    asked: Sequence[ArmComparison],
    other: Sequence[ArmComparison],
    choice: Choice,
) -> Answer:
    """Answers whether the baseline's rate is too far from the side `asked` about."""
    yes = _better(asked)
    no = _better(other) + _nearest_no_better(asked, study)
    if bool(yes) == bool(no):
        return Answer(
            word=AnswerWord.NOT_SHOWN, sentence=_not_shown(study, [*asked, *other], yes, no)
        )
    support = yes or no
    provisional = all(each.arm.verdict.is_provisional for each in support)
    word = AnswerWord.YES if yes else AnswerWord.NO
    clauses = listing([each.clause for each in support])
    head = f"{word.value.capitalize()}, provisionally" if provisional else word.value.capitalize()
    return Answer(
        word=word,
        is_provisional=provisional,
        sentence=f"{head}: {clauses}{_kept(support, choice)}.",
    )


def _better(arms: Sequence[ArmComparison]) -> list[_Support]:
    return [
        _Support(arm=arm, clause=_clause(arm, "better"))
        for arm in arms
        if arm.verdict.kind in BETTER_KINDS
    ]


def _nearest_no_better(arms: Sequence[ArmComparison], study: StudyEvidence) -> list[_Support]:
    """The nearest arm on the side asked about, when it is worse or equivalent."""
    nearest = arms[:1]
    worse = [
        _Support(arm=arm, clause=_clause(arm, "worse"))
        for arm in nearest
        if arm.verdict.kind in WORSE_KINDS
    ]
    equivalent = [
        _Support(arm=arm, clause=_equivalent(arm, study))
        for arm in nearest
        if arm.verdict.kind is VerdictKind.EQUIVALENT_WITHIN_DELTA
    ]
    return worse + equivalent


def _equivalent(arm: ArmComparison, study: StudyEvidence) -> str:
    found = arm.difference
    assert found is not None
    assert found.mean is not None
    assert found.interval_90 is not None
    error = found.standard_error
    return (
        f"{_named(arm)} differs from {BASELINE} by less than {plain(study.smallest_difference)} "
        f"nats per target token ({arm.arm} - {BASELINE} = {amount(found.mean, error)}, 90 % "
        f"interval {interval_text(found.interval_90, error)})"
    )


def _clause(arm: ArmComparison, word: str) -> str:
    found = arm.difference
    assert found is not None
    assert found.mean is not None
    assert found.interval_95 is not None
    size = amount(abs(found.mean), found.standard_error)
    interval = interval_text(away(found.interval_95, found.mean), found.standard_error)
    return (
        f"{_named(arm)} is {word} than {BASELINE}{on_this_split(arm.examples)} by {size} nats per "
        f"target token (95 % interval {interval})"
    )


_FOUND: Mapping[VerdictKind, str] = MappingProxyType(
    {
        VerdictKind.NOT_COMPARABLE: "not comparable",
        VerdictKind.TOO_FEW_SEEDS: "too few seeds for a claim",
        VerdictKind.ZERO_SPREAD: "the seeds do not vary",
        VerdictKind.BELOW_NOISE_FLOOR: "below the noise floor",
        VerdictKind.BETTER: "better",
        VerdictKind.BETTER_PROVISIONAL: "better, provisionally",
        VerdictKind.WORSE: "worse",
        VerdictKind.WORSE_PROVISIONAL: "worse, provisionally",
        VerdictKind.RELIABLE_BUT_BELOW_DELTA: "reliable, but less than matters",
        VerdictKind.EQUIVALENT_WITHIN_DELTA: "no difference that matters",
        VerdictKind.NO_RELIABLE_DIFFERENCE: "no reliable difference",
    }
)
"""What an arm came to, in a few words; arms that lack trials have their counts instead."""


def _findings(study: StudyEvidence, arms: Sequence[ArmComparison]) -> str:
    stopped = sum(cell.is_stopped for cell in study.cells_of(BASELINE))
    if stopped:
        return f"{BASELINE} itself was stopped in {stopped} of {seeds_text(len(study.seeds))}"
    return "; ".join(_finding(arm) for arm in arms)


def _finding(arm: ArmComparison) -> str:
    """The arm, its difference and interval, and what they came to."""
    summary, kind = arm.summary, arm.verdict.kind
    if kind is VerdictKind.UNSTABLE:
        return f"{_named(arm)} was stopped in {summary.n_stopped} of {summary.n_planned} seeds"
    if kind is VerdictKind.INCOMPLETE:
        return f"{_named(arm)} is incomplete"
    found = arm.difference
    if found is None or found.mean is None:
        return f"{_named(arm)}: {_FOUND[kind]}"
    error = found.standard_error
    text = f"{_named(arm)} - {BASELINE} = {amount(found.mean, error)} nats per target token"
    if found.interval_95 is not None and not found.has_zero_spread:
        text += f", 95 % interval {interval_text(found.interval_95, error)}"
    return f"{text} ({_FOUND[kind]})"


def _named(arm: ArmComparison) -> str:
    value = arm.summary.value
    return f"{arm.arm} ({value if isinstance(value, str) else plain(value)})"


def _kept(support: Sequence[_Support], choice: Choice) -> str:
    """Says so when an arm is better in loss and still cannot be chosen."""
    barred = [
        f"{each.arm.arm} cannot be chosen ({listing(each.arm.not_eligible_because)})"
        for each in support
        if each.arm.verdict.kind in BETTER_KINDS and not each.arm.is_eligible
    ]
    if not barred:
        return ""
    kept = f": {BASELINE} is kept" if choice.arm == BASELINE else ""
    return f" in validation loss, but {listing(barred)}{kept}"


def _not_shown(
    study: StudyEvidence,
    arms: Sequence[ArmComparison],
    yes: Sequence[_Support],
    no: Sequence[_Support],
) -> str:
    if yes and no:
        clauses = listing([each.clause for each in (*yes, *no)])
        return f"Not shown: the verdicts point both ways: {clauses}."
    return f"Not shown: {_findings(study, arms) or 'no arm lies on either side'}."
