"""A YAML file as plain values that remember their line.

Works on YAML's node graph rather than on loaded values: a loaded mapping no longer knows that a
key stood in it twice, nor how a number was written.

Owns: text to positions. Refuses to know: any key of the study file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from sweeper.errors import Fault, StudyFileError

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]
KeyPath = tuple[str | int, ...]

MOST_VALUES = 100_000
"""Aliases of aliases can stand for more values than any memory holds."""

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A value of the file and where it stands.

    Attributes:
        line: From 1; for the value of a key, the key's line.
        raw: A scalar as it was written, without its quotes; None for lists and mappings.
        quoted: Whether a scalar stood in quotes.
    """

    line: int
    value: Scalar | list[Located] | dict[str, Located]
    raw: str | None = None
    quoted: bool = False

    @property
    def as_written(self) -> str:
        """The value as a message quotes it."""
        match self.value:
            case dict():
                return "a mapping"
            case list():
                return "a list"
        if self.quoted:
            return f'"{self.raw}"'
        return self.raw or "nothing"

    def plain(self) -> Plain:
        """The value without its positions."""
        match self.value:
            case dict():
                return {key: entry.plain() for key, entry in self.value.items()}
            case list():
                return [entry.plain() for entry in self.value]
        return self.value

    def walk(self, at: KeyPath = ()) -> Iterator[tuple[KeyPath, Located]]:
        """Yields every value with its path, this one first."""
        yield at, self
        match self.value:
            case dict():
                for key, entry in self.value.items():
                    yield from entry.walk((*at, key))
            case list():
                for index, entry in enumerate(self.value):
                    yield from entry.walk((*at, index))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault of the file, and the line and key path that it is about.

    Attributes:
        hides_value: The value could not be read at all, so nothing else is known of it.
    """

    path: KeyPath
    line: int
    fault: Fault
    hides_value: bool = False


def dotted(path: KeyPath) -> str:
    """Returns a key path as messages show it: `training.optimizer.betas[1]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def place(file: str, line: int | None, path: KeyPath = ()) -> str:
    """Returns where something is: `study.yaml:12: training.learning_rate`."""
    spot = file if line is None else f"{file}:{line}"
    return f"{spot}: {dotted(path)}" if path else spot


def locate(text: str, file: str) -> tuple[Located, tuple[Finding, ...]]:
    """Returns the file's mapping with positions, and what is wrong but leaves it readable.

    Those are keys that stand twice in one mapping and tags other than YAML 1.2's own. Of a
    double key the last value is the one returned.

    Raises:
        StudyFileError: It is not YAML, is empty, or holds something other than a mapping.
    """
    root = _compose(text, file)
    if root is None:
        raise StudyFileError(Fault(what="the file is empty", where=file, expected="a study"))
    if not isinstance(root, MappingNode):
        expected = "keys with their values, `name:` first"
        raise StudyFileError(
            Fault(what="not a mapping of keys", where=place(file, 1), expected=expected)
        )
    reading = _Reading(file=file)
    try:
        located = reading.convert(root, (), root.start_mark.line + 1)
    except RecursionError as error:
        raise _too_deep(file) from error
    return located, tuple(reading.findings.values())


def _compose(text: str, file: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        raise StudyFileError(_syntax_fault(error, text, file)) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"a control character at character {error.position}"
        raise StudyFileError(Fault(what=what, where=place(file, line))) from error
    except YAMLError as error:
        raise StudyFileError(Fault(what=f"not YAML: {error}", where=file)) from error
    except RecursionError as error:
        raise _too_deep(file) from error
    return root


def _syntax_fault(error: MarkedYAMLError, text: str, file: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines() or [""]
    written = lines[line] if line < len(lines) else ""
    where = f"{place(file, line + 1)}, column {column + 1}"
    if written[column : column + 1] == "\t":
        hint = "Use spaces: YAML does not indent with tabs."
        return Fault(what="a tab where YAML expects spaces", where=where, hint=hint)
    problem = " ".join(part for part in (error.context, error.problem) if part)
    return Fault(what=f"not YAML: {problem}", where=where)


def _too_deep(file: str) -> StudyFileError:
    return StudyFileError(Fault(what="nested too deeply for a study file", where=file))


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One pass over the nodes; findings by line and name, since an alias is walked again."""

    file: str
    values: int = 0
    findings: dict[tuple[int, str], Finding] = field(default_factory=dict)

    def convert(self, node: Node, path: KeyPath, line: int) -> Located:
        self.values += 1
        if self.values > MOST_VALUES:
            raise _too_deep(self.file)
        if isinstance(node, MappingNode):
            return Located(line=line, value=self._mapping(node, path))
        if isinstance(node, SequenceNode):
            entries = [
                self.convert(entry, (*path, index), entry.start_mark.line + 1)
                for index, entry in enumerate(node.value)
            ]
            return Located(line=line, value=entries)
        assert isinstance(node, ScalarNode)
        quoted = node.style in ("'", '"')
        return Located(
            line=line, value=self._scalar(node, path, line), raw=node.value, quoted=quoted
        )

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Located]:
        """Merges what `<<` names under the mapping's own keys, as YAML's merge type says."""
        merged: dict[str, Located] = {}
        own: dict[str, Located] = {}
        lines: dict[str, list[int]] = {}
        for key_node, value_node in node.value:
            key, line = self._key(key_node, path), key_node.start_mark.line + 1
            lines.setdefault(key, []).append(line)
            if key_node.tag == f"{_TAG}merge":
                merged = self._merged(value_node, path, line) | merged
            else:
                own[key] = self.convert(value_node, (*path, key), line)
        for key, found in lines.items():
            if len(found) > 1:
                self._add_double(key, path, found)
        return merged | own

    def _merged(self, node: Node, path: KeyPath, line: int) -> dict[str, Located]:
        """Returns the keys of one `<<`; of several mappings the earlier ones win."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Located] = {}
        for source in sources:
            if isinstance(source, MappingNode):
                merged = self._mapping(source, path) | merged
            else:
                self._add(line, (*path, "<<"), "takes a mapping, or a list of mappings")
        return merged

    def _key(self, node: Node, path: KeyPath) -> str:
        if isinstance(node, ScalarNode):
            return _printable(node.value)
        self._add(node.start_mark.line + 1, (*path, "?"), "a key is a name, no list or mapping")
        return "?"

    def _scalar(self, node: ScalarNode, path: KeyPath, line: int) -> Scalar:
        try:
            return _scalar_value(node)
        except UnicodeEncodeError:
            what, hint = "half of a surrogate pair is no text", None
        except ValueError:
            what = f"under the tag {node.tag} this is no value of YAML 1.2"
            hint = "Leave tags and %YAML lines out."
        where, got = place(self.file, line, path), _printable(node.value)
        fault = Fault(what=what, where=where, got=got, hint=hint)
        self._keep(Finding(path=path, line=line, fault=fault, hides_value=True))
        return None

    def _add_double(self, key: str, path: KeyPath, lines: list[int]) -> None:
        times = "twice" if len(lines) == 2 else f"{len(lines)} times"
        got = f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"
        what = f"the same key {times}"
        self._add(lines[-1], (*path, key), what, got=got, hint="Keep one of them.")

    def _add(
        self, line: int, path: KeyPath, what: str, *, got: str | None = None, hint: str = ""
    ) -> None:
        fault = Fault(what=what, where=place(self.file, line, path), got=got, hint=hint or None)
        self._keep(Finding(path=path, line=line, fault=fault))

    def _keep(self, finding: Finding) -> None:
        self.findings.setdefault((finding.line, str(finding.path[-1])), finding)


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _scalar_value(node: ScalarNode) -> Scalar:
    """Returns the value of a scalar under YAML 1.2; dates and the like stay text.

    Raises:
        ValueError: The tag is unknown, or the text does not fit it.
        UnicodeEncodeError: The text holds half of a surrogate pair, which nothing can write.
    """
    text = str(node.value)
    match str(node.tag).removeprefix(_TAG):
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int":
            return _whole_number(text)
        case "float":
            return _number(text)
        case "str" | "timestamp" | "value" | "merge":
            text.encode()
            return text
    raise ValueError


def _whole_number(text: str) -> int:
    digits = text.replace("_", "")
    return int(digits, 0 if digits.lstrip("+-").startswith(("0x", "0o", "0b")) else 10)


def _number(text: str) -> float:
    special = {".inf": "inf", ".nan": "nan"}
    bare = text.lower().lstrip("+-")
    sign = "-" if text.startswith("-") else ""
    return float(sign + special.get(bare, bare.replace("_", "")))
