"""Which slots are of the kind that a trial began on."""

import pytest

from sweeper.store.reading import Start
from sweeper.sweep.devices import fits
from sweeper.workers.slots import Slot

CPU = Slot(name="cpu 1", device=None)
GPU = Slot(name="gpu 0", device="0")
TWO_GPUS = Slot(name="gpu 0,1", device="0,1")


def began_on(environment):
    return Start(
        cell="half/0",
        arm="half",
        seed=0,
        attempt=1,
        resumed_after_window=0,
        resume_differences=(),
        initial_digest="d0",
        trainable_parameters=1,
        adapted_modules=(),
        environment=environment,
        configuration={},
    )


@pytest.mark.parametrize(
    ("environment", "slot", "expected"),
    [
        ({"device": "cpu"}, CPU, True),
        ({"device": "cpu"}, GPU, False),
        ({"device": "NVIDIA H200"}, CPU, False),
        ({"device": "NVIDIA H200"}, GPU, True),
        ({"device": "NVIDIA H200"}, TWO_GPUS, True),
        ({}, CPU, True),
        ({}, GPU, True),
    ],
)
def test_a_trial_goes_on_on_the_kind_of_device_that_it_began_on(environment, slot, expected):
    assert fits(began_on(environment), slot) is expected
