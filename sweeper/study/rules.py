"""What the keys of a study may not say together.

Each rule is one function from the study to the findings it makes; the list of them is at the
foot. The option classes hold what a key alone may say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sweeper.selection.evidence import BASELINE
from sweeper.study.arm_rules import ARM_RULES, EXPECTED_RATE, precisions_of
from sweeper.study.document import Finding, KeyPath, Located
from sweeper.study.findings import StudyDocument
from sweeper.study.sbatch import EXPECTED as EXPECTED_OPTION
from sweeper.study.sbatch import fault_in_option
from sweeper.study.schema import Study
from sweeper.study.storage import EXPECTED as EXPECTED_STORAGE
from sweeper.study.storage import fault_in

_VARIABLE = re.compile(r"\$\{[^}]*\}")


def broken_rules(study: Study, document: StudyDocument) -> tuple[Finding, ...]:
    """Returns every rule that the study breaks."""
    return tuple(finding for rule in _RULES for finding in rule(study, document))


def stray_variables(document: StudyDocument) -> tuple[Finding, ...]:
    """Returns the values that name an environment variable where none is read."""
    return tuple(
        document.finding(
            path,
            "variables are not replaced here",
            got=_VARIABLE.findall(located.raw)[0],
            expected="the value itself; `${...}` is allowed in run.storage only",
        )
        for path, located in document.root.walk()
        if _holds_variable(located) and path[:2] not in _FREE_OF_VARIABLES and path[0] != _PROSE
        if located.raw is not None
    )


_PROSE = "justification"
_FREE_OF_VARIABLES = frozenset({("run", "storage"), ("run", "launcher"), ("question", "text")})


def _holds_variable(located: Located) -> bool:
    return isinstance(located.value, str) and bool(_VARIABLE.search(located.value))


def _rate_is_given_once(study: Study, document: StudyDocument) -> Iterator[Finding]:
    path = ("training", "learning_rate")
    rate, earlier = study.training.learning_rate, study.baseline
    if rate is None and earlier is None:
        what = "nothing is given" if document.holds(path) else "a required key is missing"
        yield document.finding(path, what, expected=EXPECTED_RATE)
    if rate is not None and earlier is not None:
        hint = "Leave one of them out."
        yield document.finding(path, "`baseline.from` gives the rate already", hint=hint)


def _seeds_differ(study: Study, document: StudyDocument) -> Iterator[Finding]:
    for position, seed in enumerate(study.seeds):
        if seed in study.seeds[:position]:
            path = ("seeds", position)
            yield document.finding(path, "the same seed twice", got=str(seed))


def _budget_has_one_unit(study: Study, document: StudyDocument) -> Iterator[Finding]:
    budget = study.budget
    if (budget.target_tokens is None) == (budget.epochs is None):
        expected = "{target_tokens: 20000} or {epochs: 1}"
        what = "give either `target_tokens` or `epochs`"
        yield document.finding(("budget",), what, expected=expected)
    elif budget.epochs is not None and budget.epochs > study.data.max_epochs:
        yield document.finding(
            ("budget", "epochs"),
            "more epochs than data.max_epochs allows",
            got=str(budget.epochs),
            expected=f"at most {study.data.max_epochs}",
            hint="Raise data.max_epochs if records may be read that often.",
        )


def _rows_hold_records(study: Study, document: StudyDocument) -> Iterator[Finding]:
    packing, longest = study.data.packing, study.data.max_length
    if packing is not None and packing.row_tokens < longest:
        yield document.finding(
            ("data", "packing", "row_tokens"),
            "a record may be longer than a packed row, and is never split",
            got=str(packing.row_tokens),
            expected=f"at least {longest}, which is data.max_length",
            hint="Raise data.packing.row_tokens, or lower data.max_length.",
        )


def _adapter_belongs_to_lora(study: Study, document: StudyDocument) -> Iterator[Finding]:
    if study.tune == "full" and study.lora is not None:
        yield document.finding(
            ("lora",),
            "`lora` has no effect with `tune: full`",
            hint="Leave `lora` out, or write `tune: lora`.",
        )


def _precision_fits(study: Study, document: StudyDocument) -> Iterator[Finding]:
    dtype = study.model.dtype
    if study.training.precision == "float64":
        expected = "one of auto, float32, bfloat16, float16"
        yield document.finding(
            ("training", "precision"),
            "not one of the choices",
            got=study.training.precision,
            expected=expected,
        )
    if dtype != "bfloat16":
        return
    for at, arm, precision in _precisions(study):
        if precision in ("float32", "float16"):
            whose = "" if arm is None else f"the precision of the arm `{arm}` "
            yield document.finding(
                at,
                f"{whose}does not go with a bfloat16 base",
                got=precision,
                expected="bfloat16 or auto with `model.dtype: bfloat16`",
            )
    if study.tune == "full":
        yield document.finding(
            ("model", "dtype"),
            "full fine-tuning keeps its weights in float32",
            got=dtype,
            expected="float32 or auto with `tune: full`",
            hint="`training.precision: bfloat16` computes in bfloat16 over float32 weights.",
        )


def _precisions(study: Study) -> Iterator[tuple[KeyPath, str | None, str]]:
    """Yields the key's own precision, and that of each arm beside it: where, whose, which."""
    yield ("training", "precision"), None, study.training.precision
    for arm, precision in precisions_of(study).items():
        if arm != BASELINE:
            yield ("compare", "values", arm), arm, precision


def _quantized_weights_stay_frozen(study: Study, document: StudyDocument) -> Iterator[Finding]:
    if study.model.quantization is not None and study.tune == "full":
        yield document.finding(
            ("model", "quantization"),
            "quantized weights cannot be trained, only an adapter over them",
            got=study.model.quantization,
            expected="null with `tune: full`",
            hint="Leave it out, or write `tune: lora`.",
        )


def _flash_attention_has_sixteen_bits(study: Study, document: StudyDocument) -> Iterator[Finding]:
    in_float32 = {"float32"} | ({"auto"} if study.model.dtype == "float32" else set())
    found = [arm for _, arm, precision in _precisions(study) if precision in in_float32]
    if study.model.attention != "flash_attention_2" or not found:
        return
    named = [BASELINE if arm is None else arm for arm in found]
    whose = f", and the arm `{named[0]}` in float32" if precisions_of(study) else ""
    way_on = "" if precisions_of(study) else ", or `training.precision: bfloat16`"
    yield document.finding(
        ("model", "attention"),
        f"flash attention computes in sixteen bits only{whose}",
        got=study.model.attention,
        expected="sdpa or eager with float32",
        hint=f"Choose sdpa{way_on}.",
    )


def _schedule_can_be_honoured(study: Study, document: StudyDocument) -> Iterator[Finding]:
    schedule, at = study.training.schedule, ("training", "schedule")
    if schedule.kind == "constant" and schedule.final != 0:
        yield document.finding(
            (*at, "final"),
            "a constant schedule stays at its peak",
            got=document.written((*at, "final")),
            hint="Leave `final` out, or choose linear or cosine.",
        )
    other = {"updates": "target_tokens", "target_tokens": "updates"}[schedule.counter]
    if schedule.warmup is not None and getattr(schedule.warmup, other) is not None:
        yield document.finding(
            (*at, "warmup", other),
            f"the schedule counts {schedule.counter}",
            expected=f"{schedule.counter} or fraction",
        )


def _storage_is_usable(study: Study, document: StudyDocument) -> Iterator[Finding]:
    at = ("run", "storage")
    if (fault := fault_in(study.run.storage)) is not None:
        what, hint = fault
        yield document.finding(
            at, what, got=document.written(at), expected=EXPECTED_STORAGE, hint=hint
        )


def _sbatch_options_are_the_users(study: Study, document: StudyDocument) -> Iterator[Finding]:
    launcher = study.run.launcher
    for name, value in launcher.sbatch.items() if launcher.kind == "slurm" else ():
        at = ("run", "launcher", "sbatch", name)
        if (why := fault_in_option(name, value)) is not None:
            yield document.finding(at, why, expected=EXPECTED_OPTION)


_RULES: tuple[Callable[[Study, StudyDocument], Iterable[Finding]], ...] = (
    *ARM_RULES,
    _rate_is_given_once,
    _seeds_differ,
    _budget_has_one_unit,
    _rows_hold_records,
    _adapter_belongs_to_lora,
    _precision_fits,
    _quantized_weights_stay_frozen,
    _flash_attention_has_sixteen_bits,
    _schedule_can_be_honoured,
    _storage_is_usable,
    _sbatch_options_are_the_users,
)
