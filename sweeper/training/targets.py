"""Which modules the settings of an adapter mean, and every name among them that means none.

peft is content when one of several names matches and looks past the others; it takes a module to be
trained whole for every module whose name merely ends in the same letters; and of two keys that
match one module it takes the first. Here every name means something, whole names are meant, and
no order decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

from sweeper.errors import Fault, ModelError
from sweeper.training.misnamed import (
    SAVED,
    TARGETS,
    is_linear,
    unmatched_key,
    unmatched_pattern,
    unmatched_target,
    unmatched_whole,
)
from sweeper.training.options import LoraOptions

ALL_LINEAR = "all-linear"
_PATTERNS = ("rank_pattern", "alpha_pattern")

Matches = Mapping[str, tuple[str, ...]]
"""Full module names, in the model's order, by the name or pattern that means them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the settings of an adapter mean in one model.

    Attributes:
        adapted: Modules that an adapter goes on.
        saved: Modules that are trained whole, as copies.
        matched: Modules by `key: name`, for instance `lora.targets: q_proj`.
        ties: Whether `saved` holds the input embedding and the head that is one tensor with it.
    """

    adapted: tuple[str, ...]
    saved: tuple[str, ...]
    matched: Matches
    ties: bool


def choose(model: PreTrainedModel, lora: LoraOptions) -> Choice:
    """Returns the modules that the settings mean.

    Raises:
        ModelError: Names or patterns mean nothing or contradict one another; all of them at once.
    """
    modules = {name: module for name, module in model.named_modules() if name}
    tied = _tied(model, modules)
    targets, target_faults = _targets(model, lora.targets, modules)
    whole, whole_faults = _whole(lora.modules_to_save, modules)
    saved = _in_order(modules, _union(whole))
    ties = bool(set(saved) & set(tied))
    if ties:
        saved = _in_order(modules, {*saved, *tied})
    adapted = tuple(n for n in _in_order(modules, _union(targets)) if not _is_within(n, saved))
    faults = [*target_faults, *whole_faults]
    if not faults:
        faults += _contradictions(targets, adapted, saved, tied)
    # of misspelled targets nothing follows for the patterns
    carriers = tuple(n for n in modules if is_linear(modules[n])) if target_faults else adapted
    patterns: dict[str, tuple[str, ...]] = {}
    for name in _PATTERNS:
        where, keys = f"lora.{name}", tuple(getattr(lora, name))
        found, pattern_faults = _pattern(where, keys, carriers)
        patterns |= _labelled(where, found)
        faults += pattern_faults
    if faults:
        raise ModelError(*faults)
    matched = {
        **{
            label: _in_order(adapted, names) for label, names in _labelled(TARGETS, targets).items()
        },
        **patterns,
        **_labelled(SAVED, whole),
    }
    return Choice(adapted=adapted, saved=saved, matched=matched, ties=ties)


def is_tied(model: PreTrainedModel) -> bool:
    """Tells whether the input embedding and the output head are one tensor."""
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return head is not None and head.weight is model.get_input_embeddings().weight


def _tied(model: PreTrainedModel, modules: Mapping[str, nn.Module]) -> tuple[str, ...]:
    """Returns the names of input embedding and head where they are one tensor."""
    if not is_tied(model):
        return ()
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    both = (model.get_input_embeddings(), head)
    return tuple(name for name, module in modules.items() if any(module is one for one in both))


def _targets(
    model: PreTrainedModel, targets: str | tuple[str, ...], modules: Mapping[str, nn.Module]
) -> tuple[Matches, list[Fault]]:
    if targets == ALL_LINEAR:
        head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        linear = (n for n, module in modules.items() if is_linear(module) and module is not head)
        return {ALL_LINEAR: tuple(linear)}, []
    if isinstance(targets, str):
        return _matching(targets, modules)
    if not targets:
        fault = Fault(what="the list of targets is empty", where=TARGETS, expected="module names")
        return {}, [fault]
    found = {target: _named(target, modules) for target in targets}
    return found, [unmatched_target(t, modules) for t, names in found.items() if not names]


def _matching(pattern: str, modules: Mapping[str, nn.Module]) -> tuple[Matches, list[Fault]]:
    try:
        names = tuple(name for name in modules if re.fullmatch(pattern, name))
    except re.error as error:
        what = f"the target pattern is no regular expression: {error}"
        return {}, [Fault(what=what, where=TARGETS, got=pattern)]
    return {pattern: names}, [] if names else [unmatched_pattern(pattern, modules)]


def _whole(names: tuple[str, ...], modules: Mapping[str, nn.Module]) -> tuple[Matches, list[Fault]]:
    found = {name: _named(name, modules) for name in names}
    faults = [unmatched_whole(name, modules) for name, matched in found.items() if not matched]
    faults += [
        Fault(
            what="the module has no weights of its own that can be trained whole",
            where=SAVED,
            got=name,
            hint="Name a layer with weights that are not quantized.",
        )
        for name, matched in found.items()
        if not all(_can_be_whole(modules[module]) for module in matched)
    ]
    return found, faults


def _can_be_whole(module: nn.Module) -> bool:
    """Tells whether it can be copied and called: a list of modules cannot."""
    parameters = list(module.parameters())
    is_container = isinstance(module, nn.ModuleList | nn.ModuleDict)
    return bool(parameters) and not is_container and all(p.is_floating_point() for p in parameters)


def _contradictions(
    targets: Matches, adapted: tuple[str, ...], saved: tuple[str, ...], tied: tuple[str, ...]
) -> list[Fault]:
    """Returns what names that all mean something may not mean together."""
    faults = [
        Fault(
            what="an adapter would part the input embedding from the head, which are one tensor",
            where=TARGETS,
            got=target,
            hint=f"Leave it out, or train the tensor whole: `modules_to_save: [{tied[0]}]`.",
        )
        for target, names in targets.items()
        if set(names) & set(tied) and not set(tied) <= set(saved)
    ]
    faults += [
        Fault(
            what="every module that the target means is trained whole already",
            where=TARGETS,
            got=target,
            hint=f"Leave it out of the targets, or out of {SAVED}.",
        )
        for target, names in targets.items()
        if not set(names) & set(adapted)
    ]
    return faults + [
        Fault(
            what="one module that is to be trained whole is a part of another",
            where=SAVED,
            got=name,
            hint="Name the outer or the inner one.",
        )
        for name in (*saved, *tied)
        if _is_within(name, [other for other in saved if other != name])
    ]


def _pattern(
    where: str, keys: tuple[str, ...], adapted: tuple[str, ...]
) -> tuple[Matches, list[Fault]]:
    """Finds what the keys mean: for peft, the end of a name, as a regular expression."""
    found: dict[str, tuple[str, ...]] = {}
    faults: list[Fault] = []
    for key in keys:
        try:
            found[key] = tuple(n for n in adapted if re.match(rf"(.*\.)?({key})$", n))
        except re.error as error:
            what = f"the key is no regular expression: {error}"
            faults.append(Fault(what=what, where=where, got=key))
    faults += [unmatched_key(where, key, adapted) for key, names in found.items() if not names]
    return found, faults + list(_ambiguous(where, found, adapted))


def _ambiguous(where: str, found: Matches, adapted: tuple[str, ...]) -> Iterator[Fault]:
    told = set()
    for module in adapted:
        keys = tuple(key for key, names in found.items() if module in names)
        if len(keys) > 1 and keys not in told:
            told.add(keys)
            yield Fault(
                what="several keys match one module, so that their order would decide",
                where=where,
                got=", ".join(keys),
                expected=f"one key for {module}",
                hint="Write keys that exclude one another.",
            )


def _named(name: str, modules: Iterable[str]) -> tuple[str, ...]:
    """Returns the modules whose full name it is, or the end of whose name it is in whole."""
    return tuple(m for m in modules if m == name or m.endswith(f".{name}"))


def _is_within(name: str, outer: Iterable[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in outer)


def _in_order(names: Iterable[str], chosen: Iterable[str]) -> tuple[str, ...]:
    wanted = set(chosen)
    return tuple(name for name in names if name in wanted)


def _union(found: Matches) -> set[str]:
    return {name for names in found.values() for name in names}


def _labelled(where: str, found: Matches) -> Matches:
    return {f"{where}: {name}": names for name, names in found.items()}
