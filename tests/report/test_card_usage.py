"""How a card says that weights are loaded, and what their losses were computed in."""

import importlib.util
import sys
from pathlib import Path

import pytest

from sweeper.report.card_usage import usage

_SPEC = importlib.util.spec_from_file_location(
    "usage_shipments", Path(__file__).with_name("shipments.py")
)
S = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = S
_SPEC.loader.exec_module(S)


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
    text = usage(S.exported(), {"device": device, "dtype": "float32", "precision": precision})

    assert text.splitlines()[-2:] == [
        f"# The losses above were computed under {context}.",
        "```",
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_losses_in_the_precision_of_the_weights_need_no_word(dtype):
    text = usage(S.exported(), {"device": "cpu", "dtype": dtype, "precision": dtype})

    assert "autocast" not in text
