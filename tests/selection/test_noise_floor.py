"""Two runs of the same baseline: what they differ by, and what is not claimed because of it."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.records import Reason
from sweeper.selection.answer import AnswerWord
from sweeper.selection.boundary import BoundaryKind
from sweeper.selection.choice import ChoiceKind
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import REPEAT, CellEvidence, TrialPrecision
from sweeper.selection.noise_floor import NoiseFloor, floor_nats, noise_floor

BASELINE = [1.5, 1.598, 1.611, 1.605, 1.594]
HALF = [loss - d for loss, d in zip(BASELINE, [0.012, 0.009, 0.015, 0.008, 0.009], strict=True)]
"""Better by 0.0106 on average, reliably."""


@pytest.fixture
def study(make_study):
    return make_study({"half": HALF, "baseline": BASELINE})


def verdict_of(study):
    return compare(study).arms[0].verdict


def test_a_study_that_asks_for_no_repeat_has_no_floor(study):
    assert noise_floor(study) is None
    assert compare(study).noise_floor is None
    assert floor_nats(study) == 0


def test_equal_runs_have_a_floor_of_exactly_0_and_say_so(study, repeat):
    assert noise_floor(repeat(study)) == NoiseFloor(
        seed=0,
        nats=0.0,
        baseline_loss=1.5,
        repeat_loss=1.5,
        windows_compared=3,
        first_differing_window=None,
        weights_agree=True,
        bit_equal=True,
        sentence="The noise floor is 0: two runs of baseline with seed 0 agree to the last bit, in "
        "the loss of each of 3 windows, in the validation loss and in the final weights.",
    )


@pytest.mark.parametrize("loss", [1.501953125, 1.498046875])
def test_the_floor_is_the_distance_of_the_two_validation_losses(study, repeat, loss):
    """1.5 plus or minus 1/512, each exact in binary."""
    found = noise_floor(
        repeat(study, loss, window_losses=(1.875, 1.7, 1.625), weights_digest="other")
    )

    assert found == NoiseFloor(
        seed=0,
        nats=0.001953125,
        baseline_loss=1.5,
        repeat_loss=loss,
        windows_compared=3,
        first_differing_window=2,
        weights_agree=False,
        bit_equal=False,
        sentence="The noise floor is 0.001953 nats per target token: two runs of baseline with "
        "seed 0 end that far apart (their training losses differ from window 2 on and their final "
        "weights differ). A smaller mean difference between arms is not claimed.",
    )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"weights_digest": "other"}, "their final weights differ"),
        (
            {"window_losses": (1.875, 1.75, 1.6250001)},
            "their training losses differ from window 3 on",
        ),
        ({"weights_digest": None}, "the digests of their final weights were not recorded"),
        ({"window_losses": ()}, "their training losses were not recorded"),
    ],
)
def test_a_floor_of_0_is_not_called_bit_equal_when_something_else_differs(
    study, repeat, fields, why
):
    found = noise_floor(repeat(study, **fields))

    assert (found.nats, found.bit_equal) == (0.0, False)
    assert found.sentence == (
        "The noise floor is 0: two runs of baseline with seed 0 end at the same validation loss. "
        f"They are not shown to agree to the last bit: {why}."
    )


def test_windows_that_both_skipped_without_a_loss_agree(study, alter, repeat):
    skipped = alter(study, "baseline", 0, window_losses=(1.875, None, 1.625))

    assert noise_floor(repeat(skipped)).bit_equal


def test_a_floor_as_large_as_what_matters_says_so(study, repeat):
    found = noise_floor(repeat(study, 1.5 + 0.0078125))

    assert found.nats == 0.0078125
    assert found.sentence.endswith(" It is not below the 0.005 declared to matter.")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            Reason.KILLED,
            "the repeat was killed from outside: the machine's doing, no finding about the arm",
        ),
        (
            Reason.DIVERGED,
            (
                "two runs of baseline with seed 0 do not even end alike: the first completed, the "
                "repeat diverged"
            ),
        ),
    ],
)
def test_a_repeat_that_did_not_complete_measures_nothing_and_says_why(study, repeat, entry, why):
    found = noise_floor(repeat(study, entry))

    assert found.sentence == f"The noise floor is not measured: {why}."
    assert (found.nats, found.bit_equal, found.repeat_loss) == (None, None, None)


def test_a_repeat_that_never_ran_measures_nothing(study):
    waiting = dataclasses.replace(study, repeat=CellEvidence(arm=REPEAT, seed=0))

    assert noise_floor(waiting).sentence == (
        "The noise floor is not measured: the repeat has not been run to an end."
    )


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (
            Reason.KILLED,
            1.5,
            (
                "baseline with seed 0 was killed from outside: the machine's doing, no finding "
                "about the arm"
            ),
        ),
        (
            Reason.DIVERGED,
            1.5,
            (
                "two runs of baseline with seed 0 do not even end alike: the first diverged, the "
                "repeat completed"
            ),
        ),
        (
            Reason.DIVERGED,
            Reason.DIVERGED,
            "both runs were stopped; the first diverged, the repeat diverged",
        ),
    ],
)
def test_without_the_first_run_s_end_there_is_nothing_to_repeat(
    make_study, repeat, first, second, why
):
    reference = make_study({"half": HALF, "baseline": BASELINE})
    again = repeat(reference, second).repeat
    study = make_study({"half": HALF, "baseline": [first, *BASELINE[1:]]})

    found = noise_floor(dataclasses.replace(study, repeat=again))

    assert found.nats is None
    assert found.sentence == f"The noise floor is not measured: {why}."


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        (
            {"environment": {"device": "cuda", "micro_batch": "4", "precision": "float32"}},
            "it ran in another environment: device (cuda against cpu)",
        ),
        (
            {"configuration": {"training.learning_rate": "0.0002", "training.clip_norm": "2.0"}},
            "it differs in training.clip_norm (2.0 against 1.0)",
        ),
        (
            {"configuration": {}},
            "it is complete, but its configuration was not recorded",
        ),
        ({"initial_digest": "other"}, "it started from other trainable tensors"),
        ({"record_digests": ("0:8", "x", "y")}, "it had read other records by record 16"),
        ({"target_tokens_read": 999_999}, "it read 999999 target tokens, baseline 1000000"),
        (
            {"evaluation_sets": {}},
            "it is complete, but its evaluation set was not recorded",
        ),
    ],
)
def test_what_is_not_the_same_run_is_no_repeat(study, repeat, fields, difference):
    found = noise_floor(repeat(study, 1.501953125, **fields))

    assert found.nats is None
    assert found.sentence == (
        f"The noise floor is not measured: the repeat is not the same run once more: {difference}."
    )


@pytest.mark.parametrize("fields", [{"initial_loss": 2.2}, {"first_window_loss": 3.0}])
def test_losses_that_differ_early_are_noise_and_no_obstacle(study, repeat, fields):
    assert noise_floor(repeat(study, 1.501953125, **fields)).nats == 0.001953125


class TestClaims:
    """The mean difference of `half` is 0.0106."""

    @pytest.mark.parametrize(
        ("floor", "label"),
        [
            (0.0, "better"),
            (0.0105, "better"),
            (0.0107, "no_claim:below_noise_floor"),
        ],
    )
    def test_a_difference_below_the_floor_is_not_claimed(self, study, repeat, floor, label):
        assert verdict_of(repeat(study, 1.5 + floor)).label == label

    def test_a_difference_of_just_the_floor_is_claimed(self, make_study, repeat):
        """1/64 in each seed but for a wobble that cancels out; all exact in binary."""
        baseline = [1.5, 1.625, 1.75, 1.5625, 1.6875]
        wobble = [1 / 1024, -1 / 1024, 1 / 512, -1 / 512, 0.0]
        half = [loss - 1 / 64 + w for loss, w in zip(baseline, wobble, strict=True)]
        study = make_study({"half": half, "baseline": baseline})

        assert verdict_of(repeat(study, 1.5 + 1 / 64)).label == "better"
        assert verdict_of(repeat(study, 1.5 + 1 / 64 + 2**-40)).label != "better"

    def test_the_sentence_gives_both_amounts(self, study, repeat):
        assert verdict_of(repeat(study, 1.53125)).sentence == (
            "No claim about half: lower than baseline by 0.0106 nats per target token (95 % "
            "interval 0.0070 to 0.0142, paired over 5 seeds, Holm p = 0.0012; lower in 5 of 5 "
            "seeds), which is less than the 0.03125 by which two runs of baseline with the same "
            "seed differ."
        )

    @pytest.mark.parametrize("sign", [1, -1])
    def test_a_worse_arm_is_not_called_worse_below_the_floor_either(self, make_study, repeat, sign):
        half = [loss - sign * (h - loss) for loss, h in zip(BASELINE, HALF, strict=True)]
        study = make_study({"half": half, "baseline": BASELINE})

        assert verdict_of(repeat(study, 1.53125)).label == "no_claim:below_noise_floor"

    def test_a_difference_too_small_to_matter_is_not_called_reliable_below_the_floor(
        self, make_study, repeat
    ):
        differences = [-0.002, -0.0025, -0.003, -0.002, -0.0015]
        half = [loss + d for loss, d in zip(BASELINE, differences, strict=True)]
        study = make_study({"half": half, "baseline": BASELINE})

        assert verdict_of(study).label == "reliable_but_below_delta"
        assert verdict_of(repeat(study, 1.50390625)).label == "no_claim:below_noise_floor"

    @pytest.mark.parametrize(
        ("differences", "label"),
        [
            ([0.001, -0.002, 0.0005, 0.0015, -0.001], "equivalent_within_delta"),
            ([-0.010, 0.014, -0.013, 0.008, 0.005], "no_reliable_difference"),
        ],
    )
    def test_verdicts_that_claim_no_difference_stand_and_are_noted(
        self, make_study, repeat, differences, label
    ):
        half = [loss + d for loss, d in zip(BASELINE, differences, strict=True)]
        study = repeat(make_study({"half": half, "baseline": BASELINE}), 1.53125)
        found = compare(study).arms[0]

        assert found.verdict.label == label
        assert "The mean difference of half is below the noise floor." in found.notes

    def test_what_was_not_measured_refuses_nothing(self, study, repeat):
        assert verdict_of(repeat(study, Reason.KILLED)).label == "better"

    def test_the_baseline_is_kept_and_the_answer_is_not_shown(self, study, repeat):
        found = compare(repeat(study, 1.53125))

        assert (found.choice.kind, found.choice.arm) == (ChoiceKind.BASELINE_KEPT, "baseline")
        assert found.answer.word is AnswerWord.NOT_SHOWN
        assert found.answer.sentence == (
            "Not shown: half (0.0001) - baseline = -0.0106 nats per target token, 95 % interval "
            "-0.0142 to -0.0070 (below the noise floor)."
        )

    def test_a_neighbour_within_the_floor_is_not_beaten(self, make_study, repeat):
        """Its distance to the best arm is 1/8 in the mean, clear of chance in every seed."""
        baseline = [1.5, 1.625, 1.75, 1.5625, 1.6875]
        wobble = [1 / 1024, -1 / 1024, 1 / 512, -1 / 512, 0.0]
        above = [loss + 1 / 8 + w for loss, w in zip(baseline, wobble, strict=True)]
        study = make_study({"half": above, "baseline": baseline, "double": above})

        assert compare(repeat(study, 1.625)).boundary.kind is BoundaryKind.BRACKETED
        assert compare(repeat(study, 1.75)).boundary.kind is BoundaryKind.FLAT


class TestOutsideTheArms:
    def test_arms_family_and_numbers_are_those_of_the_study_without_it(self, study, repeat):
        without = compare(study)
        found = compare(repeat(study, 1.500030517578125))

        assert found.noise_floor.nats == 2**-15
        assert dataclasses.replace(found, noise_floor=None) == without

    @pytest.mark.parametrize("entry", [Reason.DIVERGED, Reason.KILLED, Reason.CODE_ERROR])
    def test_a_repeat_that_fails_changes_no_verdict_and_no_choice(self, study, repeat, entry):
        found = compare(repeat(study, entry))

        assert dataclasses.replace(found, noise_floor=None) == compare(study)

    def test_while_the_repeat_is_open_nothing_is_chosen(self, study):
        awaited = dataclasses.replace(
            study, repeat=CellEvidence(arm=REPEAT, seed=0), repeat_is_open=True, closed=False
        )
        found = compare(awaited)

        assert found.is_partial
        assert found.choice.kind is ChoiceKind.NOT_YET
        assert found.answer.sentence == (
            "Not shown. Nothing is chosen yet: the repeat that measures the noise floor has not "
            "ended."
        )

    def test_a_study_whose_repeat_has_ended_waits_for_nothing(self, study, repeat):
        ended = dataclasses.replace(repeat(study, Reason.KILLED), closed=False)

        assert compare(ended).choice.arm == "half"

    def test_the_floor_is_plain_json(self, study, repeat):
        plain = compare(repeat(study, Reason.KILLED)).to_json()

        assert plain["noise_floor"]["nats"] is None
        assert plain["noise_floor"]["windows_compared"] == 2


def test_in_bfloat16_the_floor_is_measured_alike(study, repeat):
    loose = dataclasses.replace(study, precision=TrialPrecision.BFLOAT16)

    assert noise_floor(repeat(loose, 1.501953125)).nats == 0.001953125
