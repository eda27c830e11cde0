"""What was read, counted from what the model was given, against what was planned."""

import dataclasses
import hashlib

import pytest
import torch

from sweeper.records import EMPTY_DIGEST, Ledger, Reason
from sweeper.training.exposure import Exposure, Read
from sweeper.training.window import Document, Example


@pytest.fixture
def two_windows(build):
    """Records of (3, 2) tokens and of 4, all but the first of each supervised: 3 and 3 targets."""
    examples = [build.example([1, 2, 3]), build.example([1, 2]), build.example([4, 3, 2, 1])]
    return build.windows_of(examples, [2, 1])


def whole(window, padding_tokens=0):
    return Read(target_tokens=window.target_tokens, padding_tokens=padding_tokens)


def after(windows):
    exposure = Exposure()
    for window in windows:
        exposure = exposure.after(window, whole(window), ran=True)
    return exposure


# --- counting -----------------------------------------------------------------------------------


def test_a_skipped_window_is_read_but_not_applied(two_windows):
    first, second = two_windows
    exposure = Exposure().after(first, whole(first, 1), ran=True)
    exposure = exposure.after(second, whole(second), ran=False)
    assert exposure == Exposure(
        windows=2,
        updates=1,
        records=3,
        input_tokens=9,
        padding_tokens=1,
        target_tokens_read=6,
        target_tokens_applied=3,
        record_digest=second.planned.record_digest,
    )


def test_nothing_is_read_at_the_start():
    assert Exposure().record_digest == EMPTY_DIGEST.hex() == "00" * 32
    assert (Exposure().windows, Exposure().target_tokens_read) == (0, 0)


def test_the_digest_runs_over_each_record_and_how_many_of_its_targets_were_read(two_windows):
    """Worked from the definition: SHA-256 of the digest before, the record's, and its targets."""
    first, _ = two_windows
    one, two = (bytes.fromhex(document.digest) for document in first.documents)
    rolling = hashlib.sha256(bytes(32) + one + (2).to_bytes(8, "little")).digest()
    rolling = hashlib.sha256(rolling + two + (1).to_bytes(8, "little")).digest()
    assert after([first]).record_digest == rolling.hex()


def test_the_records_of_a_packed_row_are_counted_one_by_one(build, two_windows):
    """The same records as rows of their own or as one row: the same counts, the same digest."""
    first, _ = two_windows
    one, two = first.examples
    row = Example(
        token_ids=torch.tensor([1, 2, 3, 1, 2]).numpy().astype("int32"),
        supervised=torch.tensor([False, True, True, False, True]).numpy(),
        documents=(*one.documents, *two.documents),
        is_packed=True,
    )
    packed = dataclasses.replace(first, examples=[row])
    assert after([packed]) == after([first])


# --- against the plan, window by window ---------------------------------------------------------


def test_windows_as_planned_have_no_difference(build, two_windows):
    exposure = after(two_windows)
    assert exposure.difference is None
    assert exposure.mismatch(build.planned(two_windows)) is None


def lost_a_record(window):
    return dataclasses.replace(window, examples=window.examples[:1])


def with_another_record(window):
    first, *rest = window.examples
    (document,) = first.documents
    other = Document(record=9, digest="ab" * 32, group="ab" * 32, tokens=document.tokens)
    return dataclasses.replace(
        window, examples=[dataclasses.replace(first, documents=(other,)), *rest]
    )


def with_another_order(window):
    return dataclasses.replace(window, examples=window.examples[::-1])


def with_a_target_masked(window):
    first, *rest = window.examples
    supervised = first.supervised.copy()
    supervised[-1] = False
    return dataclasses.replace(
        window, examples=[dataclasses.replace(first, supervised=supervised), *rest]
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lost_a_record, ["records", "input_tokens", "target_tokens", "record_digest"]),
        (with_another_record, ["record_digest"]),
        (with_another_order, ["record_digest"]),
        (with_a_target_masked, ["target_tokens", "record_digest"]),
    ],
)
def test_a_window_that_is_not_the_planned_one_is_named_with_all_that_differs(
    change, named, two_windows
):
    first, second = two_windows
    difference = after([change(first), second]).difference
    opening, _, parts = difference.partition(": ")
    assert opening == "Window 1 is the first that differs"
    assert [part.split(" is ")[0] for part in parts.split("; ")] == named


def test_a_target_that_was_not_computed_is_a_difference_though_the_window_is_the_planned_one(
    two_windows,
):
    """What counts is what the model was given, not what the window holds."""
    first, _ = two_windows
    exposure = Exposure().after(first, Read(target_tokens=2), ran=True)
    assert exposure.difference == (
        "Window 1 is the first that differs: target_tokens is 2, planned 3."
    )


def test_windows_in_another_order_are_found_at_the_first_of_them(two_windows):
    first, second = two_windows
    assert after([second, first]).difference == (
        "Window 1 is the first that differs: window 2 came instead."
    )


def test_only_the_first_difference_is_told(two_windows):
    first, second = two_windows
    exposure = after([lost_a_record(first), second])
    assert exposure.difference.startswith("Window 1 ")
    assert exposure.record_digest != second.planned.record_digest


# --- against the plan, as a whole ---------------------------------------------------------------


def test_a_last_window_that_never_came_is_named(build, two_windows):
    """The first window holds 3 of the 6 targets."""
    assert after(two_windows[:1]).mismatch(build.planned(two_windows)) == (
        "Read 3 target tokens in 1 windows; the plan says 6 in 2, so window 2 is the first that"
        " differs."
    )


def test_a_window_too_many_is_named(build, two_windows):
    assert after(two_windows).mismatch(build.planned(two_windows[:1])) == (
        "Read 6 target tokens in 2 windows; the plan says 3 in 1, so window 2 is the first that"
        " differs."
    )


def test_the_ledger_puts_planned_beside_realized(build, two_windows):
    first, second = two_windows
    exposure = Exposure().after(first, whole(first, 1), ran=True)
    exposure = exposure.after(second, whole(second), ran=False)
    assert exposure.ledger(build.planned(two_windows)) == Ledger(
        planned={"windows": 2, "records": 3, "input_tokens": 9, "target_tokens": 6},
        realized={
            "windows": 2,
            "records": 3,
            "input_tokens": 9,
            "target_tokens": 6,
            "target_tokens_applied": 3,
            "updates": 1,
            "skipped": 1,
            "padding_tokens": 1,
        },
        difference=None,
    )


def test_the_ledger_of_a_trial_that_ended_early_still_shows_the_whole_plan(build, two_windows):
    first, _ = two_windows
    plan = build.planned(two_windows)
    ledger = after([first]).ledger(plan)
    assert ledger.planned == {"windows": 2, "records": 3, "input_tokens": 9, "target_tokens": 6}
    assert ledger.realized["records"] == 2
    assert ledger.difference == after([first]).mismatch(plan)


# --- in the loop --------------------------------------------------------------------------------


@pytest.fixture
def ended(build, two_windows):
    """Runs the loop over the windows as given, while the plan is that of the two windows."""

    def run(windows):
        plan = build.planned(two_windows)
        return build.run(build.Bigram(torch.zeros(5, 5)), windows, planned=plan)

    return run


def test_a_trial_that_read_as_planned_leaves_a_ledger_without_a_difference(ended, two_windows):
    run = ended(two_windows)
    (ledger,) = run.of(Ledger)
    assert run.outcome.reason is Reason.BUDGET_REACHED
    assert ledger.difference is None
    # one record of 3 and one of 2 tokens in the first window's only batch: one position of padding
    assert ledger.realized == {
        "windows": 2,
        "records": 3,
        "input_tokens": 9,
        "target_tokens": 6,
        "target_tokens_applied": 6,
        "updates": 2,
        "skipped": 0,
        "padding_tokens": 1,
    }


def test_a_window_that_differs_ends_the_trial_at_once(ended, two_windows):
    first, second = two_windows
    run = ended([with_another_record(first), second])
    (ledger,) = run.of(Ledger)
    assert run.outcome.reason is Reason.BUDGET_MISMATCH
    assert run.outcome.detail.startswith("Window 1 is the first that differs: record_digest is ")
    assert ledger.difference == run.outcome.detail
    assert [update.window for update in run.updates] == [1]


def test_a_trial_whose_last_window_never_came_fails_and_says_which_one(ended, two_windows):
    run = ended(two_windows[:1])
    (ledger,) = run.of(Ledger)
    assert run.outcome.reason is Reason.BUDGET_MISMATCH
    assert run.outcome.detail.endswith("so window 2 is the first that differs.")
    assert ledger.difference == run.outcome.detail
