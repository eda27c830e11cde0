"""One trial on 1, 2 and 3 ranks: the same windows, the same loss, the same decisions.

Numbers come from real processes over gloo; one rank alone runs in the test's process.
"""

import pytest
import torch

from sweeper.training.ranks import ALONE, sum_gradients

pytestmark = pytest.mark.slow

SIZES = (5, 4, 1, 2)
"""Records of the windows that `train` reads, one to a micro-batch: on 3 ranks two windows leave
ranks without any."""


@pytest.fixture(scope="module")
def trained(fleets, scenarios):
    """What each rank reports of the same trial, by dtype and number of ranks."""
    made = {}

    def on(count, dtype="float64"):
        if (count, dtype) not in made:
            alone = count == 1
            ask = scenarios.train if alone else fleets(count).ask
            found = ask(ALONE, dtype=dtype) if alone else ask("train", dtype=dtype)
            made[count, dtype] = [found] if alone else found
        return made[count, dtype]

    return on


# --- the same trial on any number of ranks ------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_all_read_the_same_windows_and_rank_0_alone_reports(count, trained):
    ranks, alone = trained(count), trained(1)[0]

    assert ranks[0]["records"] == alone["records"]
    assert len(ranks[0]["records"]) == len(SIZES)
    assert [rank["losses"] for rank in ranks[1:]] == [[]] * (count - 1)
    assert {rank["reason"] for rank in ranks} == {"budget_reached"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [2, 3])
def test_the_first_loss_and_the_first_evaluation_are_equal_to_the_bit(count, dtype, trained):
    """Before the first update, nothing has been added up in another order."""
    found, alone = trained(count, dtype)[0], trained(1, dtype)[0]

    assert found["losses"][0] == alone["losses"][0]
    assert found["evaluations"][0] == alone["evaluations"][0]


@pytest.mark.parametrize("count", [2, 3])
def test_later_losses_and_norms_are_equal_to_1e_12_in_float64(count, trained):
    found, alone = trained(count)[0], trained(1)[0]

    assert found["losses"] == pytest.approx(alone["losses"], rel=1e-12, abs=0)
    assert found["norms"] == pytest.approx(alone["norms"], rel=1e-12, abs=0)
    assert found["evaluations"] == pytest.approx(alone["evaluations"], rel=1e-12, abs=0)


@pytest.mark.parametrize("count", [2, 3])
def test_in_float32_they_are_equal_within_what_rounding_explains(count, trained):
    """Gradients of at most 5 micro-batches are added up in another order: at most 2 x 4 roundings
    of 2**-24 of their size each. Plain descent at rate 0.1 and momentum 0.9 turns a relative change
    d of a gradient into one of at most 0.1 x (1 + 1.9 + 2.71) x |g|**2 x d in a loss three updates
    later; with |g| below 5 that is below 15 d. A loss near 4 is itself the outcome of sums of 64
    terms, and moves by some of their roundings: 64 more. 2**-24 x (8 x 15 + 64) = 1.1e-5."""
    found, alone = trained(count, "float32")[0], trained(1, "float32")[0]

    assert max(alone["norms"]) < 5
    assert found["losses"] == pytest.approx(alone["losses"], rel=0, abs=1.1e-5)
    assert found["evaluations"] == pytest.approx(alone["evaluations"], rel=0, abs=1.1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("count", [2, 3])
def test_all_ranks_end_with_the_same_weights_to_the_bit(count, dtype, trained):
    assert len({rank["weights"] for rank in trained(count, dtype)}) == 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [2, 3])
def test_the_gradient_of_a_window_is_that_of_all_its_tokens_at_once(count, seed, fleets):
    """Random records, targets and micro-batches; some ranks of some windows have none."""
    assert max(fleets(count).ask("window_of_a_model", seed=seed)) < 1e-10


# --- numbers that can be checked by hand --------------------------------------------------------


@pytest.fixture(scope="session")
def window_of_costs(fleets):
    return lambda *micro_batches, **more: fleets(2).ask(
        "window_of_costs", micro_batches=micro_batches, **more
    )


def test_a_token_of_a_full_rank_weighs_as_much_as_one_of_an_emptier_rank(window_of_costs):
    """R16. Rank 0 has the micro-batches (1, 2) and (3), rank 1 has (9) and nothing: 15 / 4. The
    mean of each micro-batch, halved, and then the ranks' mean would be 3.375."""
    ranks = window_of_costs([1, 2], [9], [3])

    assert [(rank["loss"], rank["gradient"]) for rank in ranks] == [(3.75, [3.75])] * 2


def test_three_tokens_on_one_rank_and_one_on_the_other_are_averaged_as_tokens(window_of_costs):
    """Row 1: sums of 6 over 3 tokens and 9 over 1. The mean of the ranks' means is 5.5."""
    assert [rank["gradient"] for rank in window_of_costs([1, 2, 3], [9])] == [[3.75]] * 2


def test_the_loss_on_record_is_that_of_the_gradient_on_every_rank(window_of_costs):
    """Row 7: each rank's own mean would be logged as 2 and 9, their mean as 5.5."""
    assert [rank["loss"] for rank in window_of_costs([1, 2, 3], [9])] == [3.75, 3.75]


def test_five_tokens_on_one_rank_and_one_on_the_other_have_a_sixth_each(window_of_costs):
    """Row 6: with a mean of means the five have a tenth each, and the one a half."""
    ranks = window_of_costs([1, 1, 1, 1, 1], [1], apart=True)

    assert ranks[0]["gradient"] == ranks[1]["gradient"] == [1 / 6] * 6


def test_a_rank_without_targets_adds_nothing_and_divides_by_nothing_of_its_own(window_of_costs):
    """Row 24: 6 / 3; the empty rank's own mean would be 0 / 0."""
    ranks = window_of_costs([], [1, 2, 3])

    assert [rank["loss"] for rank in ranks] == [2.0, 2.0]
    assert ranks[0]["gradient"] == ranks[1]["gradient"] == [pytest.approx(2.0, abs=1e-15)]


def test_a_rank_without_a_micro_batch_makes_the_same_update(window_of_costs):
    """One micro-batch for two ranks: 1 - 1 x (1 + 2) / 2."""
    assert [rank["weight"] for rank in window_of_costs([1, 2])] == [[-0.5]] * 2


def test_a_gradient_that_is_not_finite_on_one_rank_is_skipped_on_all(window_of_costs):
    """Row 49: rank 1's alone is infinite, at a finite loss; the decision falls on the sum."""
    ranks = window_of_costs([1.0], [float("inf")])

    assert [(rank["skip"], rank["weight"]) for rank in ranks] == [("nonfinite_gradient", [1.0])] * 2


def test_a_loss_that_is_not_finite_on_one_rank_is_skipped_and_stops_all(fleets):
    ranks = fleets(2).ask("poisoned", tokens=[0, 1])

    assert [rank["reason"] for rank in ranks] == ["nonfinite_loss"] * 2
    assert [rank["moved"] for rank in ranks] == [False, False]
    assert ranks[0]["skips"] == ["nonfinite_loss"]


@pytest.mark.parametrize("rank", [0, 1])
def test_an_end_that_one_rank_is_asked_for_comes_after_the_same_window_on_all(rank, fleets):
    ranks = fleets(2).ask("train", ask=[rank, 2])

    assert [each["reason"] for each in ranks] == ["preempted"] * 2
    assert len({each["weights"] for each in ranks}) == 1
    assert [each["detail"][:32] for each in ranks] == ["Asked to end after window 2 of 4"] * 2


def test_loss_scaling_begins_on_a_rank_without_a_loss_of_its_own(fleets, scenarios):
    """The first of two windows has one micro-batch for three ranks."""
    settings = {"dtype": "float32", "sizes": [1, 3], "scale": 8.0}

    ranks, alone = fleets(3).ask("train", **settings), scenarios.train(ALONE, **settings)

    assert ranks[0]["scales"] == alone["scales"] == [8.0, 8.0]
    assert ranks[0]["losses"][0] == alone["losses"][0]
    assert len({rank["weights"] for rank in ranks}) == 1


# --- evaluation ---------------------------------------------------------------------------------

UNEVEN = {
    "losses": [0.1, 2.5, 1 / 3, 7.0],
    "tokens": [[0], [1, 2], [3], [2, 2, 2], [0, 3], [1], [2]],
    "micro_batch": 2,
}


@pytest.mark.parametrize("count", [2, 3])
def test_every_record_is_scored_to_the_same_bits_on_any_number_of_ranks(count, fleets, scenarios):
    """Seven records in batches of two: on 3 ranks the last one has one batch, the others more."""
    alone = scenarios.score(ALONE, **UNEVEN)

    ranks = fleets(count).ask("score", **UNEVEN)

    assert [rank["sums"] for rank in ranks] == [alone["sums"]] * count
    assert ranks[0]["loss"] == alone["loss"]


@pytest.mark.parametrize("count", [2, 3])
def test_the_loss_of_a_set_is_not_multiplied_by_the_ranks(count, fleets):
    """Row 38: every token costs 2 nats."""
    ranks = fleets(count).ask("score", losses=[2.0], tokens=[[0]] * 4, micro_batch=1)

    assert ranks[0]["loss"] == [pytest.approx(2.0, abs=1e-12)]


# --- agreement ----------------------------------------------------------------------------------


def test_a_rank_whose_weights_have_changed_is_named_at_the_next_checkpoint(fleets, tmp_path):
    answers = fleets(3).answers("train", disturb=[1, 2], folder=str(tmp_path))

    assert {answer["error"] for answer in answers} == {"RanksDisagree"}
    assert answers[0]["message"].startswith("rank 1 (window 2, update 2, records ")
    assert answers[0]["message"] == answers[1]["message"] == answers[2]["message"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000001"]


def test_of_three_ranks_the_one_that_is_alone_is_the_wrong_one(fleets, tmp_path):
    answers = fleets(3).answers("train", disturb=[0, 2], folder=str(tmp_path))

    assert answers[1]["message"].startswith("rank 0 (window 2, ")


def test_without_checkpoints_it_is_found_before_the_trial_calls_itself_complete(fleets):
    answers = fleets(2).answers("train", disturb=[1, 2])

    assert {answer["error"] for answer in answers} == {"RanksDisagree"}
    assert answers[0]["message"].startswith("rank 1 (window 4, ")


# --- gradients ----------------------------------------------------------------------------------


def test_alone_gradients_are_left_as_they_are():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = gradient = torch.tensor([1.0, 2.0])

    sum_gradients({"w": weight}, ALONE)

    assert weight.grad is gradient


def test_a_tensor_that_no_rank_has_reached_stays_without_a_gradient(fleets):
    assert (
        fleets(2).ask("add_up_gradients", reached=[[True, False, False], [False, False, True]])
        == [[[1.0, 1.0], None, [2.0, 2.0]]] * 2
    )
