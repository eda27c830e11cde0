"""The ends of a training loop, each as an outcome with what has to be on record by then."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError

from sweeper.records import Artifact, Notice, Outcome, Reason, Stop
from sweeper.training.agreement import require_agreement
from sweeper.training.anatomy import anatomy
from sweeper.training.evidence import last_checkpoint, write_evidence
from sweeper.training.exposure import Planned
from sweeper.training.keeper import Keeper


class End:
    """Ends a trial; the loop returns what its methods return."""

    def __init__(self, planned: Planned, keeper: Keeper) -> None:
        self._planned = planned
        self._keeper = keeper
        self._state = keeper.state
        self._emit = keeper.emit

    def stopped(self, stop: Stop) -> Outcome:
        """A stop condition fired; leaves its evidence.

        What the arm did stays what it did if the evidence cannot be written, on a full disk for
        instance; that is told instead.
        """
        self._emit(stop)
        if self._keeper.evidence is not None:
            try:
                self._emit(self._evidence(self._keeper.evidence, stop))
            except (OSError, SafetensorError) as error:
                self._emit(Notice(message=f"the evidence of the stop was not written: {error}"))
        evidence = {
            "window": str(stop.window),
            "updates": str(stop.updates),
            "target_tokens_read": str(stop.target_tokens_read),
        }
        if stop.last_finite_loss is not None:
            evidence["last_finite_loss"] = repr(stop.last_finite_loss)
        return Outcome(reason=stop.reason, detail=stop.detail, evidence=evidence)

    def _evidence(self, folder: Path, stop: Stop) -> Artifact:
        tried = self._state.tried
        if tried is not None and not tried.tensors:
            computed = tried.gradient_norm is not None
            tried.tensors = anatomy(self._state.tensors, with_gradients=computed)
        return write_evidence(
            folder,
            stop,
            tried,
            scaler=self._state.scaler.state_dict(),
            checkpoint=last_checkpoint(self._keeper.checkpoints, self._keeper.resumed),
        )

    def preempted(self) -> Outcome:
        """The trial was asked to end; leaves a checkpoint.

        Raises:
            OSError: It cannot be written.
        """
        self._keeper.save()
        exposure = self._state.exposure
        detail = (
            f"Asked to end after window {exposure.windows} of {self._planned.windows}, with"
            f" {exposure.target_tokens_read} of {self._planned.target_tokens} target tokens read."
        )
        return Outcome(reason=Reason.PREEMPTED, detail=detail)

    def mismatched(self) -> Outcome:
        """Something else was read than planned."""
        mismatch = self._state.exposure.mismatch(self._planned)
        assert mismatch is not None
        self._emit(self._state.exposure.ledger(self._planned))
        return Outcome(reason=Reason.BUDGET_MISMATCH, detail=mismatch)

    def completed(self) -> Outcome:
        """The budget was read to the token.

        Raises:
            RanksDisagree: A rank holds other weights than the rest.
        """
        require_agreement(self._state, self._keeper.ranks)
        exposure = self._state.exposure
        self._emit(exposure.ledger(self._planned))
        detail = (
            f"Read {exposure.target_tokens_read} target tokens in {exposure.windows} windows,"
            f" {exposure.updates} of which ended in an update."
        )
        return Outcome(reason=Reason.BUDGET_REACHED, detail=detail)
