from __future__ import annotations

import pytest
import torch

from sweeper.records import Evaluation, Reason, Update
from sweeper.trial.completion import Witness, unsound

UPDATE = dict.fromkeys(Update.__dataclass_fields__, 0)
EVALUATION = dict.fromkeys(Evaluation.__dataclass_fields__, 0)
SOUND = {"weight": torch.nn.Parameter(torch.tensor([1.0, 2.0]))}


@pytest.fixture
def witness():
    """Ten target tokens read, a finite validation loss; retention is nobody's criterion."""
    seen = Witness(lambda _record: None)
    seen.emit(Update(**UPDATE | {"target_tokens_read": 10}))
    seen.emit(Evaluation(**EVALUATION | {"split": "validation", "loss": 2.0}))
    seen.emit(Evaluation(**EVALUATION | {"split": "retention", "loss": float("nan")}))
    return seen


def test_an_attempt_that_read_its_budget_with_finite_results_is_complete(witness):
    assert unsound(witness, SOUND, planned_target_tokens=10) is None


def test_one_token_too_few_is_a_budget_mismatch(witness):
    outcome = unsound(witness, SOUND, planned_target_tokens=11)

    assert outcome.reason is Reason.BUDGET_MISMATCH
    assert outcome.detail == "read 10 of 11 planned target tokens"


def test_a_weight_that_is_not_finite_is_not_complete(witness):
    broken = {"weight": torch.nn.Parameter(torch.tensor([1.0, float("inf")]))}

    outcome = unsound(witness, broken, planned_target_tokens=10)

    assert outcome.reason is Reason.NONFINITE_PARAMETER
    assert outcome.detail == "1 trainable tensors are not finite, weight first"


def test_a_last_validation_loss_that_is_not_finite_is_not_complete(witness):
    witness.emit(Evaluation(**EVALUATION | {"split": "validation", "loss": float("nan")}))

    assert unsound(witness, SOUND, planned_target_tokens=10).reason is Reason.NONFINITE_LOSS


def test_an_attempt_without_an_evaluation_is_not_complete():
    silent = Witness(lambda _record: None)
    silent.emit(Update(**UPDATE | {"target_tokens_read": 10}))

    assert unsound(silent, SOUND, planned_target_tokens=10).reason is Reason.NONFINITE_LOSS


def test_records_are_passed_on_unchanged():
    passed = []
    record = Update(**UPDATE)

    Witness(passed.append).emit(record)

    assert passed == [record]
