"""What is said of a name that means no module: where it stands, and what may have been meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from torch import nn

from sweeper.errors import Fault, nearest
from sweeper.training.trainable import name_some

TARGETS = "lora.targets"
SAVED = "lora.modules_to_save"


def unmatched_target(target: str, modules: Mapping[str, nn.Module]) -> Fault:
    """Returns what is said of a listed target."""
    ends = last_parts(name for name, module in modules.items() if is_linear(module))
    if re.escape(target).replace(r"\.", ".") != target and "-" not in target:
        hint = "A list holds names; write a pattern as a string instead of a list."
    else:
        hint = _meant(target, ends, modules)
    return Fault(
        what="the target matches no module of the model",
        where=TARGETS,
        got=target,
        expected=f"one of {', '.join(ends)}",
        hint=hint,
    )


def unmatched_pattern(pattern: str, modules: Mapping[str, nn.Module]) -> Fault:
    """Returns what is said of a pattern for targets."""
    linear = [name for name, module in modules.items() if is_linear(module)]
    return Fault(
        what="the target pattern matches no module of the model",
        where=TARGETS,
        got=pattern,
        expected=f"a regular expression for whole names such as {name_some(linear[:2])}",
        hint=f"Write {_suggest(pattern, linear)}.",
    )


def unmatched_whole(name: str, modules: Mapping[str, nn.Module]) -> Fault:
    """Returns what is said of a module that is to be trained whole."""
    ends = last_parts(n for n, module in modules.items() if [*module.parameters(recurse=False)])
    return Fault(
        what="the name matches no module of the model",
        where=SAVED,
        got=name,
        expected=f"one of {', '.join(ends)}",
        hint=_meant(name, ends, modules),
    )


def unmatched_key(where: str, key: str, adapted: tuple[str, ...]) -> Fault:
    """Returns what is said of a key of a rank or alpha pattern, which `where` names."""
    ends = last_parts(adapted)
    return Fault(
        what="the key matches no adapted module",
        where=where,
        got=key,
        expected=f"one of {', '.join(ends)}" if ends else "an adapted module",
        hint=_meant(key, ends, adapted),
    )


def _meant(name: str, ends: Iterable[str], names: Iterable[str]) -> str:
    close = nearest(name, names if "." in name else ends)
    return f"Did you mean {close}?" if close else "Use names from the list."


def _suggest(pattern: str, linear: list[str]) -> str:
    """Returns a list of names when the pattern is made of them, else a pattern that would match."""
    ends = last_parts(linear)
    wanted = [part for part in re.findall(r"[a-z_0-9]+", pattern) if part in ends]
    if wanted:
        return rf"`.*\.({'|'.join(wanted)})`, or the list [{', '.join(wanted)}]"
    return f"the names as a list, out of {', '.join(ends)}"


def last_parts(names: Iterable[str]) -> list[str]:
    """Returns the last parts of dotted names, each once, in order."""
    return list(dict.fromkeys(name.rpartition(".")[2] for name in names))


def is_linear(module: nn.Module) -> bool:
    """Tells whether it is what targets usually mean; `Conv1D` is the linear layer of GPT-2."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"
