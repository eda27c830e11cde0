"""Exposure worked by hand on ten records of five tokens, the last two of them targets."""

from __future__ import annotations

import pytest

from sweeper.data.prepared import PreparedSplit
from sweeper.errors import PlanError
from sweeper.study.arms import plan_arms
from sweeper.study.exposure import plan_exposure


@pytest.fixture
def train(prepared) -> PreparedSplit:
    return PreparedSplit.open(prepared, "train")


def test_a_budget_of_17_reads_nine_records_in_two_windows(load, train) -> None:
    """Eight whole records give 16 targets, the ninth one more: its last target is masked and the
    record cut behind the first, at four tokens. Windows of 4, 4 and 1 records: the tail of one
    is less than half a window and joins the second."""
    exposure = plan_exposure(load().study, train, seed=0, budget_target_tokens=17)

    planned = exposure.planned
    assert (planned.records, planned.target_tokens, planned.input_tokens) == (9, 17, 44)
    assert (planned.windows, planned.last_window_target_tokens) == (2, 9)
    assert (exposure.fewest_target_tokens, exposure.most_target_tokens) == (8, 9)
    assert exposure.mean_target_tokens == 8.5
    assert exposure.last_window_records == 5
    assert exposure.epochs == 1


def test_packed_records_are_counted_in_rows(load, train) -> None:
    """Nine records, the last cut to four tokens; two of five fit in a row of 12, so five rows, the
    last with four tokens: 44 of 60. Three rows to an update: the tail of two is a window."""
    study = load(
        ("max_length: 512", "max_length: 12\n  packing: {row_tokens: 12}"),
        ("records_per_update: 4", "records_per_update: 3"),
    ).study

    exposure = plan_exposure(study, train, seed=0, budget_target_tokens=17)

    planned = exposure.planned
    assert (planned.rows, planned.records, planned.target_tokens) == (5, 9, 17)
    assert (planned.windows, planned.last_window_target_tokens) == (2, 5)
    assert (exposure.last_window_rows, exposure.last_window_records) == (2, 3)
    assert exposure.row_fill == pytest.approx(44 / 60)


def test_packing_leaves_records_and_tokens_as_they_are(load, train) -> None:
    packed = load(("max_length: 512", "max_length: 512\n  packing: {row_tokens: 512}")).study

    one, other = (
        plan_exposure(study, train, seed=0, budget_target_tokens=17).planned
        for study in (load().study, packed)
    )

    assert (one.rows, other.rows) == (None, 1)
    assert one.record_digest == other.record_digest
    assert (one.records, one.target_tokens) == (other.records, other.target_tokens)
    assert one.input_tokens == other.input_tokens


def test_a_record_that_fits_in_no_row_is_refused(load, train) -> None:
    """Records of five tokens, rows of four."""
    study = load(("max_length: 512", "max_length: 4\n  packing: {row_tokens: 4}")).study

    with pytest.raises(PlanError, match=r"data\.packing\.row_tokens: 10 of 10 training records"):
        plan_exposure(study, train, seed=0, budget_target_tokens=17)


def test_two_epochs_are_one_stream(load, train) -> None:
    """40 targets are 20 records: five windows of four."""
    study = load(("max_length: 512", "max_length: 512\n  max_epochs: 2")).study

    exposure = plan_exposure(study, train, seed=0, budget_target_tokens=40)

    assert (exposure.planned.records, exposure.planned.windows, exposure.epochs) == (20, 5, 2)


def test_more_epochs_than_allowed_are_refused(load, train) -> None:
    with pytest.raises(PlanError, match="the budget needs 2 epochs of the training split"):
        plan_exposure(load().study, train, seed=0, budget_target_tokens=21)


def test_seeds_read_other_records_first_but_as_much(load, train) -> None:
    study = load().study

    first = plan_exposure(study, train, seed=0, budget_target_tokens=16)
    second = plan_exposure(study, train, seed=1, budget_target_tokens=16)

    assert first.planned.record_digest != second.planned.record_digest
    assert first.planned.input_tokens == second.planned.input_tokens == 40


@pytest.mark.parametrize(
    ("warmup", "updates", "share"),
    [
        ("{fraction: 0.5}", 3, 0.6),
        ("{fraction: 0.0}", 0, 0.0),
        ("{updates: 2}", 2, 0.4),
        ("{updates: 10}", 10, 2.0),
    ],
)
def test_the_warm_ups_share_of_five_windows(load, train, warmup, updates, share) -> None:
    """Half of five windows is 2.5, rounded up to 3."""
    study = load(
        ("{kind: cosine}", f"{{kind: cosine, warmup: {warmup}}}"),
        ("max_length: 512", "max_length: 512\n  max_epochs: 2"),
    ).study

    exposure = plan_exposure(study, train, seed=0, budget_target_tokens=40)

    assert (exposure.counter, exposure.warmup, exposure.warmup_share) == ("updates", updates, share)


@pytest.mark.parametrize(
    ("warmup", "target_tokens", "share"),
    [("{fraction: 0.3}", 6, 6 / 17), ("{target_tokens: 8}", 8, 8 / 17), ("{fraction: 0.0}", 0, 0)],
)
def test_a_warm_up_over_target_tokens_is_a_share_of_the_budget(
    load, train, warmup, target_tokens, share
) -> None:
    """Three tenths of 17 are 5.1, rounded up to 6."""
    schedule = f"{{kind: cosine, counter: target_tokens, warmup: {warmup}}}"
    study = load(("{kind: cosine}", schedule)).study

    exposure = plan_exposure(study, train, seed=0, budget_target_tokens=17)

    found = (exposure.counter, exposure.warmup, exposure.warmup_share)
    assert found == ("target_tokens", target_tokens, share)


@pytest.mark.parametrize(("every", "evaluations"), [(5, 3), (8, 3), (17, 2), (20, 2)])
def test_evaluations_are_counted_with_the_one_before_the_first_update(
    load, train, every, evaluations
) -> None:
    """Two windows of 8 and 9 targets: a grid of 5, or of 8, is met at 0, at 8 and at the end."""
    study = load(("tune: lora", f"tune: lora\nevaluation: {{every: {{target_tokens: {every}}}}}"))

    exposure = plan_exposure(study.study, train, seed=0, budget_target_tokens=17)

    assert exposure.evaluations == evaluations


def test_an_arm_with_larger_windows_reads_the_same_in_fewer_of_them(load, train) -> None:
    """Nine records of 17 targets in windows of eight: the tail of one joins the first."""
    study = load(("key: training.learning_rate", "key: training.records_per_update"),
                 ("kind: rate_too_high", "kind: which")).study  # fmt: skip
    baseline, half, double = (
        plan_exposure(study, train, seed=0, budget_target_tokens=17, arm=arm)
        for arm in plan_arms(study)
    )

    assert [each.planned.windows for each in (half, baseline, double)] == [5, 2, 1]
    assert {each.planned.record_digest for each in (half, baseline, double)} == {
        baseline.planned.record_digest
    }
    assert {each.planned.target_tokens for each in (half, baseline, double)} == {17}
    assert [each.last_window_records for each in (half, baseline, double)] == [1, 5, 9]
    assert [each.arm for each in (half, baseline, double)] == ["half", "baseline", "double"]
