"""The frozen choice: what was chosen, by which rules, from which trials, and what it is about.

It is the content of the chain's entry `selection_frozen`. The test split is opened for it alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection.chain import digest_of
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import StudyEvidence

OPTUNA_ATTRIBUTE = "sweeper_choice"
"""The user attribute of the Optuna study that has the choice."""


class Role(StrEnum):
    """As what a checkpoint is evaluated on the test split."""

    CHOSEN = "chosen"
    BASELINE = "baseline"
    INITIAL = "initial"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenCheckpoint:
    """Weights that the test split is opened for.

    Attributes:
        arm: None for the untrained model, which belongs to none.
        path: Relative to the run folder; None for the untrained model, which lies elsewhere.
        sha256: Over its files; of the untrained model, over what identifies it: the base model,
            the adapter's settings and the initial trainable tensors of the seed.
    """

    role: Role
    arm: str | None
    seed: int
    path: str | None
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Digests of what the choice rests on.

    Attributes:
        trials: How every planned trial ended, and its losses and tokens, as they are on record.
        arms: The arms' summaries.
        differences: The arms' paired differences from the baseline.
    """

    trials: str
    arms: str
    differences: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A frozen choice.

    Attributes:
        number: Which freeze of the study it is, from 1.
        arm: The chosen one; where that is the baseline, no checkpoint has the role `chosen`.
        sentence: Why it was chosen.
        answer: What the study answers.
        protocol: The study's fingerprint.
        checkpoints: Of the chosen arm, the baseline and the untrained model, seed by seed.
        without_weights: Trials of the chosen arm and the baseline that have none to evaluate.
        metric: What is measured, of which weights.
        environment: Digest of what the frozen trials ran in.
        open_trials: Those that were open, and are not brought to an end; a partial choice then.
        reasons: Why it is partial, and why it was frozen again, in the order they were given.
        is_spent: Whether the test split had been opened for an earlier choice: a test loss of this
            one confirms nothing.
    """

    number: int
    arm: str
    sentence: str
    answer: str
    protocol: str
    tables: Tables
    checkpoints: tuple[FrozenCheckpoint, ...]
    without_weights: tuple[str, ...] = ()
    metric: str
    environment: str
    open_trials: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    is_spent: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether trials were open when it was frozen."""
        return bool(self.open_trials)

    def to_facts(self) -> dict[str, object]:
        """Returns it as plain values, for the chain's entry."""
        return dataclasses.asdict(self) | {
            "checkpoints": [
                dataclasses.asdict(each) | {"role": each.role.value} for each in self.checkpoints
            ],
            "without_weights": list(self.without_weights),
            "open_trials": list(self.open_trials),
            "reasons": list(self.reasons),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> Frozen:
        """Returns what `to_facts` described.

        Raises:
            ValueError: It is none.
        """
        plain = dict(facts)
        try:
            return cls(
                tables=Tables(**_mapping(plain.pop("tables"))),  # type: ignore[arg-type]  # as written
                checkpoints=tuple(map(_checkpoint, _list(plain.pop("checkpoints")))),
                without_weights=_texts(plain.pop("without_weights")),
                open_trials=_texts(plain.pop("open_trials")),
                reasons=_texts(plain.pop("reasons")),
                **plain,  # type: ignore[arg-type]  # as `to_facts` has written them
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no frozen choice: {error!r}") from error

    def mirrored(self, digest: str) -> dict[str, object]:
        """Returns what the Optuna study is told.

        Args:
            digest: Of the entry in the chain.
        """
        return {
            "arm": self.arm,
            "sentence": self.sentence,
            "protocol": self.protocol,
            "number": self.number,
            "digest": digest,
        }


def tables_of(evidence: StudyEvidence, comparison: Comparison) -> Tables:
    """Returns the digests of what a comparison rests on, and of what it found."""
    found = comparison.to_json()
    arms = _list(found["arms"])
    return Tables(
        trials=trials_digest(evidence),
        arms=digest_of({"arms": [found["baseline"], *(_mapping(arm)["summary"] for arm in arms)]}),
        differences=digest_of(
            {str(_mapping(arm)["arm"]): _mapping(arm)["difference"] for arm in arms}
        ),
    )


def trials_digest(evidence: StudyEvidence) -> str:
    """Returns the digest of how every planned trial ended, as the record has it."""
    rows = [
        [
            cell.arm,
            cell.seed,
            None if cell.reason is None else cell.reason.value,
            cell.validation_loss,
            cell.retention_loss,
            cell.target_tokens_read,
            cell.target_tokens_applied,
            cell.weights_digest,
        ]
        for cell in evidence.all_cells()
    ]
    return digest_of({"trials": rows})


def environment_digest(evidence: StudyEvidence, trials: Iterable[tuple[str, int]]) -> str:
    """Returns the digest of what those trials ran in, each given by arm and seed."""
    return digest_of(
        {f"{arm}/{seed}": dict(evidence.cell(arm, seed).environment) for arm, seed in trials}
    )


def untrained_digest(protocol: Mapping[str, object], initial_tensors: str | None) -> str:
    """Returns what identifies the untrained model of a seed.

    Args:
        protocol: What the study's fingerprint was taken of.
        initial_tensors: Digest of the trainable tensors that the seed's trials began from.
    """
    return digest_of(
        {
            "model": protocol.get("model"),
            "adapter": protocol.get("lora"),
            "initial_tensors": initial_tensors,
        }
    )


def _checkpoint(plain: object) -> FrozenCheckpoint:
    fields = _mapping(plain)
    return FrozenCheckpoint(**fields | {"role": Role(str(fields["role"]))})  # type: ignore[arg-type]


def _mapping(plain: object) -> dict[str, object]:
    if not isinstance(plain, dict):
        raise TypeError(f"not an object: {plain!r}")
    return plain


def _list(plain: object) -> list[object]:
    if not isinstance(plain, list):
        raise TypeError(f"not a list: {plain!r}")
    return plain


def _texts(plain: object) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(plain))
