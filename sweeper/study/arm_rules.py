"""What `compare` may say: which key, which arms, and which value each of them has.

Each rule is one function from the study to the findings it makes; the list of them is at the
foot. A value that cannot be one of the key's is told as that, and by no other rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from sweeper.errors import nearest
from sweeper.options import HIGHEST_SANE_RATE
from sweeper.selection.evidence import BASELINE
from sweeper.study.document import Finding
from sweeper.study.findings import RATE, StudyDocument, rate_hint
from sweeper.study.schema import Study

RECORDS = "training.records_per_update"
PRECISION = "training.precision"
COMPARABLE = (RATE, RECORDS, PRECISION)
"""The keys that can be a study's factor."""

PRECISIONS = ("float32", "bfloat16", "float16")
"""What an arm can compute in; `auto` would leave open what is compared."""

EXPECTED_RATE = f"a number above 0 and of at most {HIGHEST_SANE_RATE:g}"

_ARM_NAME = re.compile(r"[a-z][a-z0-9_]*")


def precisions_of(study: Study) -> Mapping[str, str]:
    """Returns the precision of each arm of a precision study, by name; of others, none.

    Values that are no precision are left out.
    """
    values = (study.compare.values or {}) if study.compare.key == PRECISION else {}
    return {name: str(value) for name, value in values.items() if value in PRECISIONS}


def _key_can_be_compared(study: Study, document: StudyDocument) -> Iterator[Finding]:
    if study.compare.key not in COMPARABLE:
        yield document.finding(
            ("compare", "key"),
            "this key cannot be compared",
            got=study.compare.key,
            expected=f"one of {', '.join(COMPARABLE)}",
        )


def _arms_are_given_once(study: Study, document: StudyDocument) -> Iterator[Finding]:
    if (study.compare.multiply is None) == (study.compare.values is None):
        yield document.finding(
            ("compare",),
            "give either `multiply` or `values`",
            expected="multiply: {half: 0.5, baseline: 1, double: 2}",
        )


def _precisions_are_not_multiplied(study: Study, document: StudyDocument) -> Iterator[Finding]:
    if study.compare.key == PRECISION and study.compare.multiply is not None:
        yield document.finding(
            ("compare", "multiply"),
            "a precision cannot be multiplied",
            expected="values: {baseline: float32, bf16: bfloat16}",
        )


def _arms_are_named(study: Study, document: StudyDocument) -> Iterator[Finding]:
    for group, arms in _arms(study).items():
        for name in arms:
            if not _ARM_NAME.fullmatch(name):
                yield document.finding(
                    ("compare", group, name),
                    "not the name of an arm",
                    got=name,
                    expected="small letters, digits and `_`, a letter first",
                )


def _arms_have_a_baseline(study: Study, document: StudyDocument) -> Iterator[Finding]:
    for group, arms in _arms(study).items():
        if BASELINE not in arms:
            yield document.finding(
                ("compare", group),
                f"no arm is named `{BASELINE}`",
                got=", ".join(arms) or "nothing",
                hint="The other arms are compared with it.",
            )
        elif len(arms) == 1:
            hint = "Add an arm to compare the baseline with."
            yield document.finding(("compare", group), "only one arm", got=BASELINE, hint=hint)


def _values_fit_the_key(study: Study, document: StudyDocument) -> Iterator[Finding]:
    for name, value in (study.compare.values or {}).items():
        wrong = _wrong_value(study.compare.key, name, value)
        if wrong is not None:
            path = ("compare", "values", name)
            what, expected, hint = wrong
            got = document.written(path)
            yield document.finding(path, what, got=got, expected=expected, hint=hint)


def _wrong_value(key: str, name: str, value: object) -> tuple[str, str, str | None] | None:
    """Returns what is wrong with an arm's value, what is expected, and a hint."""
    if key == RATE and not _is_sane_rate(value):
        if isinstance(value, str):
            return f"the learning rate of the arm `{name}` is no number", EXPECTED_RATE, None
        hint = rate_hint(value) if isinstance(value, float) else None
        return f"the learning rate of the arm `{name}` is out of range", EXPECTED_RATE, hint
    if key == RECORDS and not (isinstance(value, int) and value > 0):
        what = f"an update of the arm `{name}` would not take whole records"
        return what, "a whole number above 0", None
    if key == PRECISION and value == "auto":
        what = "what `auto` means is decided on the slot, so nothing would say what is compared"
        return what, f"one of {', '.join(PRECISIONS)}", None
    if key == PRECISION and value not in PRECISIONS:
        close = nearest(str(value), PRECISIONS)
        hint = f"Did you mean {close}?" if close else None
        return "not one of the choices", f"one of {', '.join(PRECISIONS)}", hint
    return None


def _is_sane_rate(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= HIGHEST_SANE_RATE


def _the_compared_precision_is_named(study: Study, document: StudyDocument) -> Iterator[Finding]:
    """With `auto` nobody would know before the first trial what the others are compared with."""
    own = study.training.precision
    if study.compare.key == PRECISION and own == "auto":
        named = precisions_of(study).get(BASELINE)
        yield document.finding(
            ("training", "precision"),
            "the precision is what is compared, and `auto` is decided on the slot",
            got=own,
            expected=named or f"one of {', '.join(PRECISIONS)}",
        )


def _baseline_is_the_key_itself(study: Study, document: StudyDocument) -> Iterator[Finding]:
    key = study.compare.key
    for group, arms in _arms(study).items():
        own: object = 1.0 if group == "multiply" else _own_value(study)
        if BASELINE not in arms or own in (None, "auto") or arms[BASELINE] == own:
            continue
        if group == "values" and _wrong_value(key, BASELINE, arms[BASELINE]) is not None:
            continue
        expected = "1" if group == "multiply" else f"{own}, the value of {key}"
        path = ("compare", group, BASELINE)
        got = document.written(path)
        yield document.finding(
            path, "the baseline is the study as it stands", got=got, expected=expected
        )


def _own_value(study: Study) -> object:
    section, _, name = study.compare.key.partition(".")
    return getattr(getattr(study, section, None), name, None)


def _arms_differ(study: Study, document: StudyDocument) -> Iterator[Finding]:
    for group, arms in _arms(study).items():
        first: dict[object, str] = {}
        for name, value in arms.items():
            if value in first:
                path = ("compare", group, name)
                what = f"the same value as the arm `{first[value]}`"
                yield document.finding(path, what, got=document.written(path))
            first.setdefault(value, name)


def _arms(study: Study) -> MappingProxyType[str, MappingProxyType[str, object]]:
    """Returns the arms under the key they were given with; a multiplied precision has none."""
    groups = {"multiply": study.compare.multiply, "values": study.compare.values}
    return MappingProxyType(
        {
            group: MappingProxyType(dict[str, object](arms))
            for group, arms in groups.items()
            if arms is not None and (group, study.compare.key) != ("multiply", PRECISION)
        }
    )


def _derived_rates_are_sane(study: Study, document: StudyDocument) -> Iterator[Finding]:
    """The baseline's own rate is the option class's business; the other arms' are this one's."""
    baseline = study.training.learning_rate
    if study.compare.key != RATE or baseline is None:
        return
    for name, factor in (study.compare.multiply or {}).items():
        rate = baseline * factor
        if name != BASELINE and not (0 < rate <= HIGHEST_SANE_RATE and math.isfinite(rate)):
            path = ("compare", "multiply", name)
            yield document.finding(
                path,
                f"the learning rate of the arm `{name}` is out of range",
                got=f"{document.written(path)} x {baseline:g} = {rate:g}",
                expected=EXPECTED_RATE,
                hint=rate_hint(factor) if factor > 1e3 else None,
            )


def _batches_are_whole(study: Study, document: StudyDocument) -> Iterator[Finding]:
    if study.compare.key != RECORDS:
        return
    own = study.training.records_per_update
    for name, factor in (study.compare.multiply or {}).items():
        if not math.isclose(factor * own, max(1, round(factor * own)), rel_tol=1e-9):
            path = ("compare", "multiply", name)
            yield document.finding(
                path,
                f"an update of the arm `{name}` would not take whole records",
                got=f"{document.written(path)} x {own} = {factor * own:g}",
                expected="a factor that makes training.records_per_update another whole number",
            )


def _only_rates_have_an_edge(study: Study, document: StudyDocument) -> Iterator[Finding]:
    """What asks about a rate, or adds one, belongs in a study of rates."""
    if study.compare.key not in (RECORDS, PRECISION):
        return
    about = f"with compare.key: {study.compare.key}"
    if study.question.kind != "which":
        path = ("question", "kind")
        what = "the question is about the rate, which is not what is compared"
        yield document.finding(path, what, got=study.question.kind, expected=f"which {about}")
    if study.selection.extensions:
        path = ("selection", "extensions")
        got = document.written(path)
        what = "only rates are extended beyond an edge"
        yield document.finding(path, what, got=got, expected=f"0 {about}")


def _one_dtype_suits_every_arm(study: Study, document: StudyDocument) -> Iterator[Finding]:
    """`auto` follows the precision on a GPU: the arms would differ in two settings there."""
    follows = study.tune == "lora" and "bfloat16" in precisions_of(study).values()
    if study.model.dtype == "auto" and follows:
        yield document.finding(
            ("model", "dtype"),
            "on a GPU `auto` holds the base weights of a bfloat16 arm in bfloat16 and those of "
            "other arms in float32, and arms differ in one setting only",
            got="auto",
            expected="float32",
        )


ARM_RULES: tuple[Callable[[Study, StudyDocument], Iterable[Finding]], ...] = (
    _key_can_be_compared,
    _arms_are_given_once,
    _precisions_are_not_multiplied,
    _arms_are_named,
    _arms_have_a_baseline,
    _values_fit_the_key,
    _the_compared_precision_is_named,
    _baseline_is_the_key_itself,
    _arms_differ,
    _derived_rates_are_sane,
    _batches_are_whole,
    _only_rates_have_an_edge,
    _one_dtype_suits_every_arm,
)
