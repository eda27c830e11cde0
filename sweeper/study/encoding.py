"""The bytes of a study file as text: always UTF-8, whatever the locale."""

from __future__ import annotations

import codecs
from pathlib import Path

from sweeper.errors import Fault, StudyFileError
from sweeper.study.document import place

LARGEST_FILE_BYTES = 2**20


def read_text(path: Path) -> str:
    """Returns the text of a UTF-8 file, with or without a byte order mark.

    Raises:
        StudyFileError: There is no such file, it cannot be read, or it or its path is not UTF-8.
    """
    content = _read_bytes(path)
    _refuse_other_names(path)
    mark = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    try:
        return content[mark:].decode()
    except UnicodeDecodeError as error:
        offset = mark + error.start
        line = content.count(b"\n", 0, offset) + 1
        raise StudyFileError(
            Fault(
                what=f"not UTF-8 at byte {offset}",
                where=place(str(path), line),
                got=f"byte 0x{content[offset]:02x}",
                hint="Save the file as UTF-8.",
            )
        ) from error


def _refuse_other_names(path: Path) -> None:
    """Refuses a path that could be written neither into the record nor into a manifest."""
    named = str(path.resolve()).encode("utf-8", errors="surrogateescape")
    try:
        named.decode()
    except UnicodeDecodeError as error:
        raise StudyFileError(
            Fault(
                what="the path of a study has to be UTF-8",
                where=named.decode("utf-8", errors="backslashreplace"),
                got=f"byte 0x{named[error.start]:02x}",
                hint="Rename the folder or the file.",
            )
        ) from error


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        hint = "`sweeper init` writes a study file to start from."
        raise StudyFileError(Fault(what="no such file", where=str(path), hint=hint)) from error
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise StudyFileError(Fault(what=what, where=str(path))) from error
    if len(content) > LARGEST_FILE_BYTES:
        got = f"{len(content)} bytes"
        raise StudyFileError(
            Fault(what="too large for a study file", where=str(path), got=got, expected="1 MiB")
        )
    return content
