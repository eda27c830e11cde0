"""The model card of exported weights, in the format of the Hugging Face hub, from the record.

It holds no path, no host and no word of a record, and no licence: that is the user's to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from sweeper.report.card_metadata import metadata
from sweeper.report.card_usage import about_base, usage
from sweeper.report.columns import NATS, Column, Table, integer, number, text
from sweeper.report.dossier import Dossier
from sweeper.report.formats import markdown, markdown_text
from sweeper.report.parts.fixed import data_splits, fixed_settings
from sweeper.report.parts.limits import limits
from sweeper.report.parts.marks import marks
from sweeper.report.parts.opened import opened_part
from sweeper.report.sheets import sheet_of
from sweeper.report.shipping import Shipment, Standing, first_shipped
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.chain import head
from sweeper.selection.evidence import BASELINE
from sweeper.selection.opened_sentences import times_evaluated
from sweeper.selection.wording import listing
from sweeper.store.reading import Row
from sweeper.trial.export.package import Exported

_PATHS = frozenset({"path", "source", "chat_template", "revision"})
"""Settings that say where a file was; the base model's revision stands beside its id."""
_ENVIRONMENT = ("device", "dtype", "precision", "attention", "torch", "transformers", "peft")
_MODEL = text("model", "what has the losses")
_EXPOSURE = (
    *("target_tokens_read", "target_tokens_applied", "records", "input_tokens"),
    *("windows", "updates", "skipped", "clipped"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What a card is about."""

    dossier: Dossier
    shipped: Shipment
    exported: Exported

    @property
    def arm(self) -> str:
        """The trial's arm; that of a repeat of the baseline is none."""
        return str(self.shipped.trial["arm"])

    @property
    def findings(self) -> ArmComparison | None:
        """What was found about the arm; None for the baseline."""
        arms = self.dossier.comparison.arms
        return next((each for each in arms if each.arm == self.arm), None)


def model_card(dossier: Dossier, shipped: Shipment, exported: Exported) -> str:
    """Returns the card: metadata, then text in Markdown."""
    case = _Case(dossier=dossier, shipped=shipped, exported=exported)
    parts = [part for section in _SECTIONS for part in section(case)]
    return (
        f"{metadata(_metadata(case))}\n" + "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
    )


def _metadata(case: _Case) -> dict[str, str | Sequence[str]]:
    exported, entries = case.exported, dict[str, str | Sequence[str]]()
    if exported.base.hub_id is not None:
        entries["base_model"] = exported.base.hub_id
        entries["base_model_relation"] = "adapter" if exported.is_adapter else "finetune"
    lora = exported.spec.lora
    made_by = () if lora is None else ("dora" if lora.dora else "lora",)
    return entries | {
        "library_name": "peft" if exported.is_adapter else "transformers",
        "model_name": f"{case.dossier.recorded.name}: {case.shipped.name}",
        "pipeline_tag": "text-generation",
        "tags": (*made_by, "sweeper"),
    }


def _say(case: _Case, sentence: str) -> str:
    """Returns a sentence as Markdown on one line, without paths."""
    return markdown(case.dossier.discretion.prose(" ".join(sentence.split())))


def _bullets(case: _Case, sentences: Sequence[tuple[str, str]]) -> str:
    return "\n".join(
        f"- **{_say(case, title)}.** {_say(case, said)}" if title else f"- {_say(case, said)}"
        for title, said in sentences
    )


def _sheet(case: _Case, table: Table, caption: str) -> str:
    prose = case.dossier.discretion.prose
    rows = [
        {name: prose(each) if isinstance(each, str) else each for name, each in row.items()}
        for row in table.rows
    ]
    clean = Table(rows=rows, columns=table.columns)
    return markdown_text(sheet_of(clean, label="card", caption=caption))


def _title(case: _Case) -> Iterator[str]:
    seed, name = case.shipped.trial["seed"], case.dossier.recorded.name
    yield f"# {_say(case, f'{name}: {case.arm}, seed {seed}')}"
    yield _say(
        case,
        f"{_what(case.exported)}, made by one trial of a controlled study with sweeper "
        f"{version('sweeper')}. {about_base(case.exported)}",
    )
    word, sentence = _standing(case)
    yield f"**{word}.** {_say(case, sentence)}"


def _what(exported: Exported) -> str:
    lora, base = exported.spec.lora, exported.base.hub_id
    if lora is None:
        named = "" if base is None else f", {base},"
        return f"A causal language model{named} of which all weights were trained"
    kind = "DoRA" if lora.dora else "LoRA"
    if exported.merged:
        into = "its base model" if base is None else base
        return f"A causal language model: a {kind} adapter merged into {into}"
    return f"A {kind} adapter" + ("" if base is None else f" for {base}")


def _standing(case: _Case) -> tuple[str, str]:
    shipped, first = case.shipped, first_shipped(case.dossier)
    if shipped.standing is Standing.FROZEN:
        left_none = listing([str(seed) for seed in shipped.without_weights])
        first_with = f" that left weights (not {left_none})" if left_none else ""
        return "The frozen choice", (
            f"Of the chosen arm, {case.arm}, this is the first declared seed{first_with}: it was "
            "not picked among the seeds by its loss."
        )
    if shipped.standing is Standing.OTHER_SEED:
        return "A seed picked by hand", (
            f"The arm, {case.arm}, is the frozen choice, of which {first} is passed on. To pick "
            "another seed is one selection more, and nothing here allows for it."
        )
    known = "no choice has been frozen" if first is None else f"that is {first}"
    return (
        "Not the frozen choice",
        f"It was named by hand: {known}. The study claims nothing of it.",
    )


def _findings(case: _Case) -> Iterator[str]:
    found, frozen, arm = case.dossier.comparison, case.dossier.frozen, case.findings
    yield "## What the study found"
    sentences = [
        ("Question", found.question_text),
        ("Answer", found.answer.sentence if frozen is None else frozen.answer),
        ("Choice", found.choice.sentence if frozen is None else frozen.sentence),
    ]
    if arm is not None:
        sentences.append((f"Verdict on {arm.arm}", arm.verdict.sentence))
        sentences += [(f"On {arm.arm}", note) for note in arm.notes]
    sentences += [(mark.word, mark.sentence) for mark in marks(case.dossier)]
    yield _bullets(case, sentences)


def _losses(case: _Case) -> Iterator[str]:
    columns = (
        _MODEL,
        number("validation_loss", NATS, "at the declared checkpoint"),
        number("sd", NATS, "over seeds"),
        integer("trials", None, "completed"),
    )
    found, own = case.dossier.comparison, case.shipped.trial
    means = [found.baseline, *(arm.summary for arm in found.arms)]
    rows: list[Row] = [
        _loss("this checkpoint", own["validation_loss"]),
        _loss("the same before training", own["initial_loss"]),
        *(
            _loss(f"mean of {each.arm}", each.mean, sd=each.sd, trials=each.n_completed)
            for each in means
            if each.arm in {case.arm, BASELINE}
        ),
    ]
    which = "where it was lowest" if found.is_at_best else "at the end of training"
    yield "## Losses"
    yield _sheet(case, Table(rows=rows, columns=columns), f"Validation loss {which}")
    yield _say(
        case,
        "The mean of an arm is what the study found; a checkpoint's own loss is one draw from it. "
        "Arms are chosen on this split, so that the loss of a chosen one is somewhat optimistic. "
        "A loss is a mean over target tokens, those that training supervises.",
    )
    yield _say(case, _verified(case))
    yield "## Retention"
    yield _say(case, _retention(case))


def _loss(model: str, loss: object, *, sd: float | None = None, trials: int | None = None) -> Row:
    return {"model": model, "validation_loss": loss, "sd": sd, "trials": trials}


def _verified(case: _Case) -> str:
    found, recorded = case.exported.validation_loss, case.shipped.validation_loss
    if found is None:
        return "The exported files were not evaluated when they were made."
    return (
        f"Loaded again from these files, in a process of its own, the model gave {found!r} nats "
        f"per target token on the validation split; {recorded!r} is on record."
    )


def _retention(case: _Case) -> str:
    own = case.shipped.trial
    if own["retention_loss"] is None:
        return "Not measured: the study has no retention split."
    guard = case.findings
    verdict = "" if guard is None else f" {guard.retention.sentence}"
    return (
        f"Loss on the retention split, nats per target token: {_four(own['retention_loss'])}, and "
        f"{_four(own['retention_initial_loss'])} before training.{verdict}"
    )


def _four(loss: object) -> str:
    return f"{loss:.4f}" if isinstance(loss, float) else "unknown"


def _opened(case: _Case) -> Iterator[str]:
    part, openings = opened_part(case.dossier), case.dossier.openings
    yield "## Test split"
    count = len(openings.results)
    if count:
        again = times_evaluated(openings)
        yield _say(case, again or "The test split was evaluated once.")
    yield " ".join(_say(case, sentence) for sentence in part.sentences)
    if part.losses is not None:
        yield _sheet(case, part.losses, "Losses on the validation and the test split")


def _use(case: _Case) -> Iterator[str]:
    yield "## Use"
    yield usage(case.exported, case.shipped.environment)


def _training(case: _Case) -> Iterator[str]:
    own, factor = case.shipped.trial, case.dossier.recorded.factor_key
    yield "## How it was trained"
    exposure = [column for column in case.dossier.trials.columns if column.name in _EXPOSURE]
    yield _sheet(case, Table(rows=[own], columns=exposure), "What it read")
    fixed = fixed_settings(case.dossier)
    rows = [row for row in fixed.rows if _is_shown(str(row["setting"]))]
    value = own[factor.rpartition(".")[2]]
    compared = f"{value:g}" if isinstance(value, float) else str(value)
    rows = [{"setting": f"{factor} (compared)", "value": compared}, *rows]
    environment = case.shipped.environment
    rows += [
        {"setting": name, "value": environment[name]}
        for name in _ENVIRONMENT
        if name in environment
    ]
    yield _sheet(case, Table(rows=rows, columns=fixed.columns), "Settings, and what it ran on")
    splits = data_splits(case.dossier)
    if splits is not None:
        yield _sheet(case, splits, "The data, by digests of their records")


def _is_shown(setting: str) -> bool:
    return setting.rpartition(".")[2] not in _PATHS and ".fields." not in setting


def _limits(case: _Case) -> Iterator[str]:
    yield "## Limits"
    yield _bullets(case, [("", sentence) for sentence in limits(case.dossier)])


def _record(case: _Case) -> Iterator[str]:
    dossier, shipped, links = case.dossier, case.shipped, case.dossier.links
    began, base = dossier.recorded.created_at, case.exported.base
    yield "## Record"
    named = [
        ("Study", f"{dossier.recorded.name}{'' if began is None else f', begun {began:%Y-%m-%d}'}"),
        ("Fingerprint of what is studied", dossier.recorded.fingerprint),
        ("Head of the chain", f"{head(links)}, after {len(links)} entries"),
        ("Weights as the trial left them, SHA-256", shipped.sha256),
    ]
    data = links[0].facts.get("data") if links else None
    if isinstance(data, dict):
        which = "files, SHA-256" if base.is_from_folder else "commit"
        named.append((f"Base model's {which}", f"{data.get('model')}"))
        named.append(("Tokenizer's files, SHA-256", f"{data.get('tokenizer')}"))
    if dossier.frozen is not None and dossier.frozen.number > 1:
        named.append(("Times frozen", str(dossier.frozen.number)))
    yield _bullets(case, named)
    columns: tuple[Column, ...] = (
        text("file", "name"),
        integer("bytes", None, "its size"),
        text("sha256", "digest"),
    )
    rows = [
        {"file": each.name, "bytes": each.size_bytes, "sha256": each.sha256}
        for each in case.exported.files
    ]
    yield _sheet(case, Table(rows=rows, columns=columns), "Files, beside this card")


def _licence(_: _Case) -> Iterator[str]:
    yield "## Licence"
    yield (
        "None is stated: it depends on those of the base model and of the data. Whoever publishes "
        "these files adds `license:` to the head of this card."
    )


_SECTIONS: tuple[Callable[[_Case], Iterator[str]], ...] = (
    _title,
    _findings,
    _losses,
    _opened,
    _use,
    _training,
    _limits,
    _record,
    _licence,
)
