"""How a model card says that the weights are loaded: lines of Python, and what to know first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweeper.report.card_metadata import quoted
from sweeper.trial.export.package import Exported

_HERE, _BASE = "THIS FOLDER", "THE BASE MODEL"


def usage(exported: Exported, environment: Mapping[str, str]) -> str:
    """Returns a block of Python.

    Args:
        environment: What the trial ran on, by field.
    """
    return "\n".join(["```python", *_lines(exported, environment), "```"])


def about_base(exported: Exported) -> str:
    """Returns what there is to know of the base model, as a sentence or two."""
    base, holds = exported.base, "" if exported.is_adapter else " Nothing of it is needed here."
    if base.hub_id is None:
        unnamed = (
            " adapter_config.json therefore names none, for a folder's name could be taken for "
            "that of another model on a hub: give the base model to PeftModel yourself."
            if exported.is_adapter
            else ""
        )
        return (
            "The study read its base model from a folder, and where others find it is not on "
            f"record.{unnamed}{holds}"
        )
    if base.is_from_folder:
        return (
            f"The study read its base model from a folder whose config.json says that it came from "
            f"{base.hub_id}. At which revision is not on record, and nothing shows that its "
            f"weights are those of the hub: the digest below is of the files that were read.{holds}"
        )
    return f"The base model is {base.hub_id}, at revision {base.revision}.{holds}"


def _lines(exported: Exported, environment: Mapping[str, str]) -> Iterator[str]:
    model = exported.spec.model
    is_quantized = exported.is_adapter and model.quantization is not None
    if is_quantized:
        yield "import torch"
    if exported.is_adapter:
        yield "from peft import PeftModel"
    config = ", BitsAndBytesConfig" if is_quantized else ""
    yield f"from transformers import AutoModelForCausalLM, AutoTokenizer{config}"
    yield ""
    given = [quoted((exported.base.hub_id or _BASE) if exported.is_adapter else _HERE)]
    if exported.is_adapter and exported.base.revision is not None:
        given.append(f"revision={quoted(exported.base.revision)}")
    dtype = environment.get("dtype")
    if dtype is not None:
        given.append(f"dtype={quoted(dtype)}")
    if model.trust_remote_code:
        given.append("trust_remote_code=True")
    if is_quantized:
        yield "four_bits = BitsAndBytesConfig("
        yield f"    load_in_4bit=True, bnb_4bit_quant_type={quoted(model.quantization or '')},"
        yield f"    bnb_4bit_compute_dtype=torch.{dtype},"
        yield ")"
        given.append("quantization_config=four_bits")
    name = "base" if exported.is_adapter else "model"
    yield f"{name} = AutoModelForCausalLM.from_pretrained({', '.join(given)})"
    if exported.is_adapter:
        yield f"model = PeftModel.from_pretrained(base, {quoted(_HERE)})"
    yield f"tokenizer = AutoTokenizer.from_pretrained({quoted(_HERE)})"
    if dtype == "float32" and environment.get("precision", dtype) != dtype:
        device = "cpu" if environment.get("device") == "cpu" else "cuda"
        computed = f"torch.autocast({quoted(device)}, dtype=torch.{environment['precision']})"
        yield f"# The losses above were computed under {computed}."
