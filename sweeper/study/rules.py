"""What the keys of a study may not say together.

Each rule is one function from the study to the findings it makes; the list of them is at the
foot. The option classes hold what a key alone may say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType

from sweeper.options import HIGHEST_SANE_RATE
from sweeper.selection.evidence import BASELINE
from sweeper.study.document import Finding, Located
from sweeper.study.findings import RATE, StudyDocument, rate_hint
from sweeper.study.sbatch import EXPECTED as EXPECTED_OPTION
from sweeper.study.sbatch import fault_in_option
from sweeper.study.schema import Study
from sweeper.study.storage import EXPECTED as EXPECTED_STORAGE
from sweeper.study.storage import fault_in

RECORDS = "training.records_per_update"
COMPARABLE = (RATE, RECORDS, "training.precision")
"""The keys that can be a study's factor; see `pending.py` for those not built yet."""

_ARM_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_EXPECTED_RATE = f"a number above 0 and of at most {HIGHEST_SANE_RATE:g}"


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


def _baseline_is_the_key_itself(study: Study, document: StudyDocument) -> Iterator[Finding]:
    for group, arms in _arms(study).items():
        own: object = 1.0 if group == "multiply" else _own_value(study)
        if BASELINE in arms and arms[BASELINE] != own:
            expected = "1" if group == "multiply" else f"{own}, the value of {study.compare.key}"
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
    """Returns the arms under the key they were given with."""
    groups = {"multiply": study.compare.multiply, "values": study.compare.values}
    return MappingProxyType(
        {
            group: MappingProxyType(dict[str, object](arms))
            for group, arms in groups.items()
            if arms is not None
        }
    )


def _rate_is_given_once(study: Study, document: StudyDocument) -> Iterator[Finding]:
    path = ("training", "learning_rate")
    rate, earlier = study.training.learning_rate, study.baseline
    if rate is None and earlier is None:
        what = "nothing is given" if document.holds(path) else "a required key is missing"
        yield document.finding(path, what, expected=_EXPECTED_RATE)
    if rate is not None and earlier is not None:
        hint = "Leave one of them out."
        yield document.finding(path, "`baseline.from` gives the rate already", hint=hint)


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
                expected=_EXPECTED_RATE,
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
    if study.compare.key != RECORDS:
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
    dtype, precision = study.model.dtype, study.training.precision
    at = ("training", "precision")
    if precision == "float64":
        expected = "one of auto, float32, bfloat16, float16"
        yield document.finding(at, "not one of the choices", got=precision, expected=expected)
    if dtype != "bfloat16":
        return
    if precision in ("float32", "float16"):
        yield document.finding(
            at,
            "does not go with a bfloat16 base",
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
    precision = study.training.precision
    in_float32 = precision == "float32" or (precision == "auto" and study.model.dtype == "float32")
    if study.model.attention == "flash_attention_2" and in_float32:
        yield document.finding(
            ("model", "attention"),
            "flash attention computes in sixteen bits only",
            got=study.model.attention,
            expected="sdpa or eager with float32",
            hint="Choose sdpa, or `training.precision: bfloat16`.",
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
    _key_can_be_compared,
    _arms_are_given_once,
    _arms_are_named,
    _arms_have_a_baseline,
    _baseline_is_the_key_itself,
    _arms_differ,
    _rate_is_given_once,
    _derived_rates_are_sane,
    _batches_are_whole,
    _only_rates_have_an_edge,
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
