"""What is said of an evaluation of several checkpoints."""

from sweeper.opening.examining import together


def test_a_field_in_which_checkpoints_differ_holds_every_value_once():
    baseline = {"device": "cpu", "precision": "float32"}
    chosen = {"device": "cpu", "precision": "bfloat16"}

    assert together([baseline, chosen, baseline]) == {
        "device": "cpu",
        "precision": "float32 and bfloat16",
    }
