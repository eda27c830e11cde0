"""What the store recorded, as the evidence that verdicts are made from: field by field."""

import dataclasses

import pytest

import sweeper
from sweeper.errors import NotFound
from sweeper.records import Reason
from sweeper.report.comparison import evidence
from sweeper.report.recorded import recorded_settings
from sweeper.selection.evidence import (
    Arm,
    CellEvidence,
    EvaluationSet,
    QuestionKind,
    StudyEvidence,
    StudyKind,
    TrialPrecision,
)
from sweeper.selection.trajectory import EvaluationPoint
from sweeper.selection.verdicts import VerdictKind
from sweeper.store.store import StudyStore

SET = EvaluationSet(set_digest="held-out set", target_tokens=40, dtype="float32", micro_batch=4)
ENVIRONMENT = {"device": "cpu", "precision": "float32", "threads": "1"}
THREE_WINDOWS = {
    "records_read": (2, 4, 6),
    "record_digests": ("records up to 1", "records up to 2", "records up to 3"),
    "evaluation_sets": {"validation": SET, "retention": SET},
    "environment": ENVIRONMENT,
    "target_tokens_read": 30,
    "target_tokens_applied": 30,
    "target_tokens_planned": 30,
    "windows": 3,
}

START = EvaluationPoint(target_tokens_read=0, training_seconds=0.0, loss=2.5, retention_loss=3.0)
"""Before the first update; each window then takes a quarter of a second."""


def end(loss):
    return EvaluationPoint(
        target_tokens_read=30, training_seconds=0.75, loss=loss, retention_loss=3.0625
    )


CELLS = (
    CellEvidence(
        arm="baseline",
        seed=0,
        reason=Reason.BUDGET_REACHED,
        detail="read 30 of 30 target tokens",
        initial_loss=2.5,
        first_window_loss=2.625,
        validation_loss=1.5,
        retention_initial_loss=3.0,
        retention_loss=3.0625,
        last_finite_loss=1.5,
        window_losses=(2.625, 2.0, 1.5),
        weights_digest="b" * 64,
        initial_digest="tensors of seed 0",
        evaluations=(START, end(1.5)),
        configuration={"training.learning_rate": "0.0002", "tune": '"lora"'},
        **THREE_WINDOWS,
    ),
    CellEvidence(
        arm="half",
        seed=0,
        reason=Reason.BUDGET_REACHED,
        detail="read 30 of 30 target tokens",
        initial_loss=2.5,
        first_window_loss=2.625,
        validation_loss=1.75,
        retention_initial_loss=3.0,
        retention_loss=3.0625,
        last_finite_loss=1.75,
        window_losses=(2.625, 2.25, 1.75),
        weights_digest="b" * 64,
        initial_digest="tensors of seed 0",
        evaluations=(START, end(1.75)),
        configuration={"training.learning_rate": "0.0001", "tune": '"lora"'},
        **THREE_WINDOWS,
    ),
    CellEvidence(
        arm="double",
        seed=0,
        reason=Reason.NONFINITE_LOSS,
        detail="the loss of window 2 was nan",
        initial_loss=2.5,
        first_window_loss=2.625,
        retention_initial_loss=3.0,
        last_finite_loss=2.625,
        window_losses=(2.625, None),
        initial_digest="tensors of seed 0",
        evaluations=(START,),
        records_read=(2, 4),
        record_digests=("records up to 1", "records up to 2"),
        evaluation_sets={"validation": SET, "retention": SET},
        environment=ENVIRONMENT,
        target_tokens_read=20,
        target_tokens_applied=10,
        target_tokens_planned=30,
        windows=2,
        skipped=1,
        stopped_at_target_tokens=20,
        configuration={"training.learning_rate": "0.0004", "tune": '"lora"'},
    ),
    CellEvidence(
        arm="baseline",
        seed=1,
        reason=Reason.CODE_ERROR,
        detail="RuntimeError: no [kernel]",
        initial_digest="tensors of seed 1",
        environment=ENVIRONMENT,
        target_tokens_read=0,
        target_tokens_applied=0,
        target_tokens_planned=30,
        configuration={"training.learning_rate": "0.0002", "tune": '"lora"'},
    ),
    CellEvidence(
        arm="half",
        seed=1,
        reason=Reason.KILLED,
        detail="killed by SIGKILL, which sweeper did not send",
        target_tokens_read=0,
        target_tokens_applied=0,
        target_tokens_planned=30,
    ),
    CellEvidence(
        arm="double",
        seed=1,
        initial_loss=2.5,
        first_window_loss=2.375,
        last_finite_loss=2.375,
        window_losses=(2.375,),
        initial_digest="tensors of seed 1",
        evaluations=(dataclasses.replace(START, retention_loss=None),),
        records_read=(2,),
        record_digests=("records up to 1",),
        evaluation_sets={"validation": SET},
        environment=ENVIRONMENT,
        target_tokens_read=10,
        target_tokens_applied=10,
        target_tokens_planned=30,
        windows=1,
        configuration={"training.learning_rate": "0.0004", "tune": '"lora"'},
    ),
    CellEvidence(arm="baseline", seed=2, target_tokens_planned=30),
    CellEvidence(arm="half", seed=2, target_tokens_planned=30),
    CellEvidence(arm="double", seed=2, target_tokens_planned=30),
)


@pytest.fixture
def found(begun):
    with StudyStore.read(begun.folder.database_url) as store:
        return evidence(store, recorded_settings(begun.folder))


@pytest.mark.parametrize("place", range(9), ids=lambda place: f"{CELLS[place].arm}-{place // 3}")
def test_a_cell_s_evidence_is_what_its_attempts_reported(found, place):
    assert found.cells[place] == CELLS[place]


def test_the_study_s_evidence_has_its_question_arms_and_agreed_rules(found):
    assert found == StudyEvidence(
        question=QuestionKind.RATE_TOO_HIGH,
        question_text="Is the rate too high?",
        kind=StudyKind.RATE,
        factor="training.learning_rate",
        arms=(
            Arm(name="half", value=0.0001),
            Arm(name="baseline", value=0.0002),
            Arm(name="double", value=0.0004),
        ),
        seeds=(0, 1, 2),
        cells=CELLS,
        smallest_difference=0.25,
        retention_margin=0.5,
        precision=TrialPrecision.FLOAT32,
        precision_tolerance=0.01,
        has_retention=True,
        closed=False,
        starts_alike=True,
    )


@pytest.fixture
def with_repeat(studies, tmp_path):
    """Puts a study that is done on record, and its baseline once more as it is told to end."""

    def record(end=None):
        recorded = studies.finish(tmp_path)
        studies.add_repeat(recorded)
        with recorded.open() as store:
            end(store, studies.REPEAT) if end else None
        return recorded

    return record


def test_a_repeat_is_a_trial_and_belongs_to_no_arm(studies, with_repeat):
    recorded = with_repeat(lambda store, cell: studies.complete(store, cell, losses=(2.5, 2, 1.5)))
    frame = sweeper.trials(recorded.file)
    found = sweeper.compare(recorded.file)

    assert frame.groupby("arm")["validation_loss"].count().to_dict() == {
        "baseline": 3,
        "baseline~repeat": 1,
        "double": 0,
        "half": 3,
    }
    assert frame.set_index("trial").loc["baseline/0~repeat", "learning_rate"] == 0.0002
    assert (found.baseline.n_planned, [arm.arm for arm in found.arms]) == (3, ["half", "double"])


def test_a_repeat_that_ended_alike_shows_a_floor_of_0(studies, with_repeat):
    recorded = with_repeat(lambda store, cell: studies.complete(store, cell, losses=(2.5, 2, 1.5)))

    floor = sweeper.compare(recorded.file).noise_floor

    assert (floor.seed, floor.nats, floor.windows_compared, floor.bit_equal) == (0, 0.0, 3, True)


def test_a_repeat_that_ended_elsewhere_shows_how_far(studies, with_repeat):
    recorded = with_repeat(
        lambda store, cell: studies.complete(store, cell, losses=(2.5, 2.125, 1.5625))
    )

    floor = sweeper.compare(recorded.file).noise_floor

    assert (floor.nats, floor.first_differing_window, floor.bit_equal) == (0.0625, 2, False)


def test_a_repeat_that_did_not_complete_says_why(studies, with_repeat):
    recorded = with_repeat(studies.fail)

    found = sweeper.compare(recorded.file)

    assert found.noise_floor.sentence == (
        "The noise floor is not measured: the repeat ended in a code error (RuntimeError: no "
        "[kernel]): a fault of the run, no finding about the arm."
    )
    assert not found.is_partial


def test_while_the_repeat_waits_the_comparison_is_partial(with_repeat):
    found = sweeper.compare(with_repeat().file)

    assert found.is_partial
    assert found.noise_floor.nats is None


def test_a_repeat_that_the_study_s_early_end_left_out_is_not_waited_for(with_repeat):
    recorded = with_repeat(lambda store, _: store.close_not_run("it ends here"))

    assert not sweeper.compare(recorded.file).is_partial


def test_rules_that_were_edited_after_the_start_do_not_count(studies, tmp_path):
    recorded = studies.finish(tmp_path)
    text = recorded.file.read_text("utf-8")
    recorded.file.write_text(text.replace("smallest_difference: 0.25", "smallest_difference: 2"))

    assert sweeper.compare(recorded.file).smallest_difference == 0.25


def test_one_trial_in_bfloat16_loosens_the_gates_on_losses(studies, tmp_path):
    recorded = studies.found(tmp_path)
    environment = ENVIRONMENT | {"precision": "bfloat16"}
    with recorded.open() as store:
        claim = store.claim(studies.living_owner(), "cpu:0", cell="baseline/0")
        start = studies.started("baseline/0", environment=environment)
        studies.report(store, claim, start)
        found = evidence(store, recorded_settings(recorded.folder))

    assert found.precision is TrialPrecision.BFLOAT16


def test_a_trial_that_went_on_elsewhere_has_run_in_another_environment(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies.go_on_elsewhere(store, "baseline/0")
        found = evidence(store, recorded_settings(recorded.folder))

    assert found.cell("baseline", 0).environment == ENVIRONMENT | {
        "device": "cpu, then H200 after window 1"
    }


def test_a_closed_study_counts_what_is_missing_for_good(studies, tmp_path):
    recorded = studies.begin(tmp_path)
    before = sweeper.compare(recorded.file)
    with recorded.open() as store:
        store.close_study("enough is known")
        open_still = evidence(store, recorded_settings(recorded.folder)).closed
        store.lose_dead(lambda _: True, max_resumes=0)
    after = sweeper.compare(recorded.file)

    assert (before.is_closed, before.is_pending, before.is_partial) == (False, True, True)
    assert not open_still  # one trial was running
    assert (after.is_closed, after.is_pending, after.is_partial) == (True, False, True)
    assert before.arms[0].difference.p_holm is None
    assert after.arms[0].difference.p_holm == 1
    assert after.arms[0].verdict.sentence.endswith("closed: the arm counts with p = 1.")


def test_the_rules_of_the_study_file_are_the_evidence_s(studies, tmp_path):
    """A decaying schedule, a decay of weights, a target and further arms, all of it agreed."""
    recorded = studies.found(tmp_path)
    file = recorded.folder.recorded_study
    text = file.read_text("utf-8")
    text = text.replace(
        "{kind: constant}", "{kind: cosine}, optimizer: {kind: adamw, weight_decay: 0.1}"
    )
    text = text.replace("retention_margin: 0.5", "retention_margin: 0.5, target_loss: 1.25")
    file.write_text(text.replace("tune: lora", "tune: full"), "utf-8")
    with recorded.open() as store:
        found = evidence(store, recorded_settings(recorded.folder))

    assert (found.target_loss, found.weight_decay, found.rate_decays) == (1.25, 0.1, True)
    assert (found.extensions, found.starts_alike) == (0, False)


def test_a_study_that_is_done_is_judged(finished):
    found = sweeper.compare(finished.file)

    half, double = found.arms
    assert half.verdict.kind is VerdictKind.WORSE_PROVISIONAL
    assert half.difference.mean == 0.5078125  # 0.5, 0.5 + 1/128 and 0.5 + 1/64 on average
    assert double.verdict.label == "unstable:3/3"
    assert not found.is_partial


def test_the_run_folder_says_the_same_as_the_study_file(finished):
    assert sweeper.compare(finished.folder.path) == sweeper.compare(finished.file)


def test_a_study_that_has_not_begun_cannot_be_compared(studies, tmp_path):
    file = studies.write_file(tmp_path)

    with pytest.raises(NotFound, match="no study has begun in this folder"):
        sweeper.compare(file)
