"""Where a place differs from the one that a seed began in."""

import pytest

from sweeper.study.same_environment import (
    Difference,
    all_differences,
    fields_of_precision,
    known_differences,
)

BEGAN = {"device": "NVIDIA A100", "torch": "2.13.0", "cuda": "12.8"}


@pytest.mark.parametrize(
    ("known", "fields"),
    [
        ({"device": "NVIDIA A100", "torch": "2.13.0"}, []),
        ({"device": "A100", "torch": "2.13.0"}, []),
        ({"device": "NVIDIA H100", "torch": "2.13.0"}, ["device"]),
        ({"device": "NVIDIA H100", "torch": "2.14.0"}, ["device", "torch"]),
        ({"device": "a GPU"}, []),
        ({"device": "cpu"}, ["device"]),
        ({"threads": "1"}, []),
        ({}, []),
    ],
    ids=[
        "the same",
        "the driver says it shorter",
        "another model",
        "and another torch",
        "a GPU of some model",
        "no GPU",
        "a field that the first attempt did not report",
        "nothing known",
    ],
)
def test_what_is_known_of_a_slot_is_compared_field_by_field(known, fields):
    assert [each.field for each in known_differences(known, BEGAN)] == fields


@pytest.mark.parametrize(("known", "fits"), [("a GPU", False), ("cpu", True)])
def test_a_seed_that_began_on_cores_goes_on_on_cores(known, fits):
    assert (known_differences({"device": known}, {"device": "cpu"}) == ()) is fits


def test_a_trial_compares_every_field_that_either_has():
    found = {"device": "NVIDIA A100", "torch": "2.14.0", "mkl_cbwr": "AVX2"}

    assert all_differences(found, BEGAN) == (
        Difference(field="cuda", began_with="12.8", has="not set"),
        Difference(field="mkl_cbwr", began_with="not set", has="AVX2"),
        Difference(field="torch", began_with="2.13.0", has="2.14.0"),
    )


def test_a_difference_names_both_values():
    (difference,) = all_differences({"device": "NVIDIA H100"}, {"device": "NVIDIA A100"})

    assert str(difference) == "device NVIDIA H100 instead of NVIDIA A100"


@pytest.mark.parametrize(
    ("precision", "scaling"), [("float32", "no"), ("bfloat16", "no"), ("float16", "yes")]
)
def test_loss_scaling_follows_from_the_precision(precision, scaling):
    assert fields_of_precision(precision) == {"precision": precision, "loss_scaling": scaling}
