"""The answer line: what the verdicts say to the study's question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.choice import Choice
from sweeper.selection.evidence import BASELINE, QuestionKind, StudyEvidence
from sweeper.selection.verdicts import BETTER_KINDS, WORSE_KINDS, VerdictKind
from sweeper.selection.wording import amount, listing, plain


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
        return _which(choice)
    if study.is_pending:
        return Answer(word=AnswerWord.NOT_SHOWN, sentence=f"Not shown. {choice.sentence}")
    lower, higher = _sides(study, arms)
    asked, other = (
        (lower, higher) if study.question is QuestionKind.RATE_TOO_HIGH else (higher, lower)
    )
    return _too_far(study, asked, other, choice)


def _which(choice: Choice) -> Answer:
    word = AnswerWord.NONE if choice.arm is None else AnswerWord.ARM
    return Answer(word=word, arm=choice.arm, sentence=choice.sentence)


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
        return Answer(word=AnswerWord.NOT_SHOWN, sentence=_not_shown([*asked, *other], yes, no))
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
    delta = plain(study.smallest_difference)
    equivalent = [
        _Support(arm=arm, clause=f"{_named(arm)} is equivalent within {delta} nats")
        for arm in nearest
        if arm.verdict.kind is VerdictKind.EQUIVALENT_WITHIN_DELTA
    ]
    return worse + equivalent


def _clause(arm: ArmComparison, word: str) -> str:
    assert arm.difference is not None
    assert arm.difference.mean is not None
    size = amount(abs(arm.difference.mean), arm.difference.standard_error)
    return f"{_named(arm)} is {word} than {BASELINE} by {size} nats per target token"


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
    arms: Sequence[ArmComparison], yes: Sequence[_Support], no: Sequence[_Support]
) -> str:
    if yes and no:
        clauses = listing([each.clause for each in (*yes, *no)])
        return f"Not shown: the verdicts point both ways: {clauses}."
    labels = listing([f"{arm.arm}: {arm.verdict.label}" for arm in arms])
    return f"Not shown: no verdict settles it ({labels})."
