"""How a card says that weights are loaded, and what their losses were computed in."""

import pytest
import shipments

from sweeper.report.card_usage import usage


@pytest.mark.parametrize(
    ("device", "precision", "context"),
    [
        ("cpu", "bfloat16", 'torch.autocast("cpu", dtype=torch.bfloat16)'),
        ("NVIDIA H200", "float16", 'torch.autocast("cuda", dtype=torch.float16)'),
    ],
)
def test_losses_of_another_precision_than_the_weights_say_what_they_were_computed_in(
    device, precision, context
):
    text = usage(
        shipments.exported(), {"device": device, "dtype": "float32", "precision": precision}
    )

    assert text.splitlines()[-2:] == [
        f"# The losses above were computed under {context}.",
        "```",
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_losses_in_the_precision_of_the_weights_need_no_word(dtype):
    text = usage(shipments.exported(), {"device": "cpu", "dtype": dtype, "precision": dtype})

    assert "autocast" not in text
