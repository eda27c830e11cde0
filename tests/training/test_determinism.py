"""Streams of random numbers that do not disturb one another."""

import random

import numpy as np
import pytest
import torch

from sweeper.training.determinism import (
    make_deterministic,
    preserved,
    seed_everything,
    seeded,
    stream_seed,
)

CPU = torch.device("cpu")


def draw():
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def test_a_seed_fixes_python_numpy_and_torch():
    seed_everything(7)
    first = draw()
    seed_everything(7)
    assert draw() == first


def test_two_seeds_differ():
    seed_everything(0)
    first = draw()
    seed_everything(1)
    assert not set(draw()) & set(first)


def test_ranks_draw_differently_and_rank_0_as_if_it_were_alone():
    drawn = []
    for rank in (0, 1, 2):
        seed_everything(7, rank=rank)
        drawn.append(draw())
    seed_everything(7)

    assert drawn[0] == draw()
    assert len({number for numbers in drawn for number in numbers}) == 9


def test_what_a_seeded_body_draws_depends_on_seed_and_purpose_alone():
    def drawn(seed, purpose):
        torch.rand(3)
        with seeded(seed, purpose, CPU):
            return float(torch.rand(()))

    assert drawn(1, "adapter") == drawn(1, "adapter")
    assert len({drawn(1, "adapter"), drawn(2, "adapter"), drawn(1, "training")}) == 3


def test_what_is_drawn_inside_is_not_missed_outside():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with seeded(1, "adapter", CPU):
        torch.rand(5)
    with preserved(CPU):
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)


def test_the_seed_of_a_stream_is_the_first_eight_bytes_of_a_digest_halved():
    """`printf training:0 | sha256sum` begins with these sixteen digits."""
    assert stream_seed(0, "training") == 0xCB419A0EE6711468 // 2


@pytest.fixture
def torch_settings():
    """Puts back what a test changes for the whole process."""
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    switches = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.set_num_threads(before[1])
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = switches


@pytest.mark.usefixtures("torch_settings")
@pytest.mark.parametrize("deterministic", [True, False])
def test_threads_and_deterministic_algorithms_are_set_as_asked(deterministic):
    make_deterministic(deterministic=deterministic, threads=2)
    assert torch.are_deterministic_algorithms_enabled() is deterministic
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("torch_settings")
@pytest.mark.parametrize(("asked", "wanted"), [({}, False), ({"tf32": True}, True)])
def test_tf32_is_off_in_products_and_convolutions_unless_asked_for(asked, wanted):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not wanted
    make_deterministic(deterministic=True, threads=1, **asked)
    assert torch.backends.cuda.matmul.allow_tf32 is wanted
    assert torch.backends.cudnn.allow_tf32 is wanted
    assert torch.get_float32_matmul_precision() == ("high" if wanted else "highest")


@pytest.mark.usefixtures("torch_settings")
def test_a_model_trains_under_deterministic_algorithms(build):
    make_deterministic(deterministic=True, threads=1)
    windows = build.windows_of(build.random_examples(4), [2, 2])
    assert build.run(build.tiny_llama(), windows).outcome.reason == "budget_reached"
