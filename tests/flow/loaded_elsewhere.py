"""Loads exported models as anybody does, without sweeper, and prints their validation losses.

Reads a request from standard input: the base model's folder, the exports, and records as tokens.
"""

import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def loaded(folder: str, base: str | None) -> torch.nn.Module:
    if base is None:
        return AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()
    whole = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    return PeftModel.from_pretrained(whole, folder).eval()


@torch.no_grad()
def loss(model: torch.nn.Module, records: list[dict[str, list[int]]]) -> float:
    """Returns the mean over target tokens, record by record, without batches or padding."""
    summed, targets = 0.0, 0
    for record in records:
        tokens = torch.tensor(record["tokens"])
        at = torch.tensor(record["supervised"])
        scores = torch.log_softmax(model(tokens[None]).logits[0][at - 1].double(), dim=-1)
        summed -= float(scores[torch.arange(len(at)), tokens[at]].sum())
        targets += len(at)
    return summed / targets


def main() -> None:
    request = json.load(sys.stdin)
    losses = [loss(loaded(*each), request["records"]) for each in request["models"]]
    words = [
        AutoTokenizer.from_pretrained(each[0])("red bread").input_ids for each in request["models"]
    ]
    assert not any(name.startswith("sweeper") for name in sys.modules), "it needs nothing of ours"
    print(json.dumps({"losses": losses, "words": words}))  # noqa: T201


if __name__ == "__main__":
    main()
