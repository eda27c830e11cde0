"""What may be behind a finding, and which check would tell: guesses, never facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sweeper.options import HIGHEST_SANE_RATE
from sweeper.report.case import Case
from sweeper.report.symptoms import SPIKE_WINDOWS_BEFORE, Finding, Symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One possible cause.

    Attributes:
        symptom: Of which it is a possible cause.
        suspicion: What may be so.
        check: What the command would show if it were.
        command: The words after `sweeper`.
    """

    symptom: Symptom
    suspicion: str
    check: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What commands name: the study as the user wrote it, the trial, and its peak rate."""

    study: str
    trial: str
    learning_rate: float | None
    case: Case

    def replay(self, first_window: int | None, *more: str) -> tuple[str, ...]:
        """Returns the replay of all windows from one on, the first one at the earliest."""
        words = ["replay", self.study, self.trial]
        if first_window is not None and self.case.windows:
            last = self.case.windows[-1].window
            words += ["--windows", str(last - max(first_window, 1) + 1)]
        return (*words, *more)

    def with_rate(self, factor: float, *, first_window: int | None) -> tuple[str, ...] | None:
        """Returns the replay with a multiple of the rate; None where that is no rate."""
        rate = (self.learning_rate or 0.0) * factor
        if not 0 < rate <= HIGHEST_SANE_RATE:
            return None
        return self.replay(first_window, "--set", f"training.learning_rate={rate:.6g}")

    def updates(self, columns: str) -> tuple[str, ...]:
        """Returns the command that prints these columns of all windows."""
        return ("updates", self.study, self.trial, "--columns", columns)


def guesses(findings: Iterable[Finding], subject: Subject) -> Iterator[Guess]:
    """Yields what may be behind each finding, the likelier causes first."""
    for finding in findings:
        yield from _GUESSES[finding.symptom](finding, subject)


def _nonfinite(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="one record, or one module, computes something that is not finite",
        check="the replay names micro-batch, records, module and tensor; then leave a record out",
        command=("replay", subject.study, subject.trial),
    )
    yield from _rate_too_high(finding, subject)


def _loss_spike(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="that window holds records unlike the others",
        check="the replay names the micro-batch with the highest loss and its records",
        command=subject.replay(finding.first_window),
    )
    yield from _rate_too_high(finding, subject)


def _rate_too_high(finding: Finding, subject: Subject) -> Iterator[Guess]:
    first = finding.first_window
    if first is not None and finding.symptom is not Symptom.RISING_LOSS:
        first -= SPIKE_WINDOWS_BEFORE  # it is the updates before that were too long
    command = subject.with_rate(0.5, first_window=first)
    if command is not None:
        yield Guess(
            symptom=finding.symptom,
            suspicion="the rate is too high",
            check="with half of it, from before it began, it would not come again",
            command=command,
        )


def _frequent_clipping(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="the threshold is below what gradients of this model and data usually are, or the"
        " warm-up is too short",
        check="norms above the threshold all the way mean the former, at the start only the latter",
        command=subject.updates("window,learning_rate,gradient_norm,clipped"),
    )


def _scaler_overflows(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="some activation or gradient is beyond what float16 can hold (65504)",
        check="in bfloat16, which has the range of float32, no window would be skipped",
        command=subject.replay(finding.first_window, "--set", "training.precision=bfloat16"),
    )


def _stalled_updates(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="training does not reach the trainable tensors, or each update is below half a"
        " step of their last digit",
        check="a note says which tensors had a gradient of zero; rates and norms are in the table",
        command=("show", subject.study, subject.trial),
    )


def _zero_targets(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="answers are cut off, or the chat template marks none",
        check="the check counts records that were cut or dropped, and target tokens",
        command=("check", subject.study),
    )


def _flat_loss(finding: Finding, subject: Subject) -> Iterator[Guess]:
    command = subject.with_rate(10.0, first_window=1)
    if command is not None:
        yield Guess(
            symptom=finding.symptom,
            suspicion="the rate is too low to learn anything within this budget",
            check="with ten times the rate the loss would move",
            command=command,
        )
    yield Guess(
        symptom=finding.symptom,
        suspicion="the model knows these answers already, or the adapter is too small for them",
        check="other arms that moved speak against it",
        command=("compare", subject.study),
    )


def _retention_damage(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="the rate is too high, or the budget too large, for what was learned before",
        check="an arm with a lower rate would show less of it",
        command=("compare", subject.study),
    )


def _throughput_collapse(finding: Finding, subject: Subject) -> Iterator[Guess]:
    yield Guess(
        symptom=finding.symptom,
        suspicion="another process uses the device or the cores, or the device throttles",
        check="records of the same length would take longer; host and slot are with the attempt",
        command=("show", subject.study, subject.trial),
    )
    yield Guess(
        symptom=finding.symptom,
        suspicion="the windows hold many short records, which cost more per token",
        check="their tokens would be fewer than those of the windows before",
        command=subject.updates("window,seconds,input_tokens,padding_tokens,records"),
    )


_GUESSES: Mapping[Symptom, Callable[[Finding, Subject], Iterator[Guess]]] = MappingProxyType(
    {
        Symptom.NONFINITE: _nonfinite,
        Symptom.LOSS_SPIKE: _loss_spike,
        Symptom.RISING_LOSS: _rate_too_high,
        Symptom.FREQUENT_CLIPPING: _frequent_clipping,
        Symptom.SCALER_OVERFLOWS: _scaler_overflows,
        Symptom.STALLED_UPDATES: _stalled_updates,
        Symptom.ZERO_TARGETS: _zero_targets,
        Symptom.FLAT_LOSS: _flat_loss,
        Symptom.RETENTION_DAMAGE: _retention_damage,
        Symptom.THROUGHPUT_COLLAPSE: _throughput_collapse,
    }
)
