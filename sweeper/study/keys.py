"""The keys of the study file, read off the option classes: paths, defaults, what each holds.

Messages and `sweeper check` name keys; this module is where they learn which there are, so
that no list of keys is written down twice.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sweeper.study.document import Plain
from sweeper.study.schema import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the schema.

    Attributes:
        path: Dotted, from the top of the file; list positions are left out.
        expected: What it holds, as a message says it.
        required: Whether it must be given where its mapping is given.
        default: As plain JSON values; None where it is required.
        number: `int` or `float` where it, or each of its entries, is a number; else None.
        variant: The `kind` it belongs to, where the mapping has several.
    """

    path: str
    expected: str
    required: bool
    default: Plain
    number: type[int | float] | None
    variant: str | None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def parent(self) -> str:
        """The path of the mapping that holds it; empty at the top of the file."""
        return self.path.rpartition(".")[0]


def schema_keys() -> tuple[Key, ...]:
    """Returns every key of the study file in the order of the schema.

    A key that means leaving something out by `null` is described without it.
    """
    return tuple(_model_keys(Study, "", None))


def _model_keys(model: type[BaseModel], prefix: str, variant: str | None) -> Iterator[Key]:
    for attribute, field in model.model_fields.items():
        path = f"{prefix}{field.alias or attribute}"
        yield _key(path, field, variant)
        for inner, kind in _models_within(field.annotation):
            yield from _model_keys(inner, f"{path}.", kind)


def _key(path: str, field: FieldInfo, variant: str | None) -> Key:
    default = None if field.is_required() else _plain(field.get_default(call_default_factory=True))
    return Key(
        path=path,
        expected=_expected_of_field(field),
        required=field.is_required(),
        default=default,
        number=_number_type(field.annotation),
        variant=variant,
    )


def _plain(value: Any) -> Plain:  # noqa: ANN401  # whatever a field holds
    if isinstance(value, BaseModel):
        plain: Plain = value.model_dump(mode="json")
        return plain
    return list(value) if isinstance(value, tuple) else value


def _models_within(annotation: Any) -> Iterator[tuple[type[BaseModel], str | None]]:  # noqa: ANN401
    """Yields the option classes a key may hold, with the `kind` of each where it has one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, _kind_of(annotation)
        return
    if get_origin(annotation) is not dict:
        for part in get_args(annotation):
            yield from _models_within(part)


def _kind_of(model: type[BaseModel]) -> str | None:
    kind = model.model_fields.get("kind")
    choices = get_args(kind.annotation) if kind is not None else ()
    return str(choices[0]) if len(choices) == 1 else None


def _number_type(annotation: Any) -> type[int | float] | None:  # noqa: ANN401
    if get_origin(annotation) in (dict, tuple):
        return _number_type(get_args(annotation)[-1 if get_origin(annotation) is dict else 0])
    for part in _parts(annotation):
        bare = get_args(part)[0] if get_origin(part) is Annotated else part
        if bare is int or bare is float:
            return int if bare is int else float
    return None


def _parts(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return get_args(annotation) if is_union else (annotation,)


def _expected_of_field(field: FieldInfo) -> str:
    return field.description or _expected(field.annotation, tuple(field.metadata))


def _expected(annotation: Any, bounds: tuple[object, ...] = ()) -> str:  # noqa: ANN401
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return _expected_annotated(inner, metadata)
    parts = [part for part in _parts(annotation) if part is not types.NoneType]
    if len(parts) > 1 or parts[0] is not annotation:
        return " or ".join(dict.fromkeys(_expected(part, bounds) for part in parts))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        names = [field.alias or name for name, field in annotation.model_fields.items()]
        return f"a mapping with the keys {', '.join(names)}"
    return _expected_of_generic(annotation) or _NAMES.get(annotation, "a value") + _bounds(bounds)


def _expected_of_generic(annotation: Any) -> str | None:  # noqa: ANN401
    entries = get_args(annotation)
    match get_origin(annotation):
        case None:
            return None
        case origin if origin is Literal:
            return _choices([str(choice) for choice in entries])
        case origin if origin is dict:
            return f"a mapping, each value {_expected(entries[1])}"
    count = "" if entries[-1] is Ellipsis else f" of {len(entries)}"
    return f"a list{count}, each entry {_expected(entries[0])}"


def _expected_annotated(inner: Any, metadata: list[Any]) -> str:  # noqa: ANN401
    bounds: list[object] = []
    for entry in metadata:
        if isinstance(entry, FieldInfo):
            if entry.description:
                return entry.description
            bounds.extend(entry.metadata)
        else:
            bounds.append(entry)
    return _expected(inner, tuple(bounds))


def _choices(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _bounds(bounds: tuple[object, ...]) -> str:
    texts = []
    for bound in bounds:
        match bound:
            case annotated_types.Gt(gt=limit):
                texts.append(f"above {limit}")
            case annotated_types.Ge(ge=limit):
                texts.append(f"of at least {limit}")
            case annotated_types.Lt(lt=limit):
                texts.append(f"below {limit}")
            case annotated_types.Le(le=limit):
                texts.append(f"of at most {limit:g}")
    return " " + " and ".join(texts) if texts else ""


_NAMES: types.MappingProxyType[Any, str] = types.MappingProxyType(
    {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
    }
)
