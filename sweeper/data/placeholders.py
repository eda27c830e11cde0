"""Files that are no records at all, recognised by their first bytes. Pure.

A pointer, a login page or an archive under the name of a data file is common, and a JSON parser's
complaint about it misleads.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from types import MappingProxyType

ACCEPTED = "JSONL or JSON records, as UTF-8 text and not compressed"

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstandard"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
)
_COMPRESSED_NAMES = MappingProxyType(
    {
        ".gz": "gzip",
        ".zst": "zstandard",
        ".bz2": "bzip2",
        ".xz": "xz",
        ".zip": "zip",
    }
)
_OTHER_FORMATS = MappingProxyType(
    {
        ".csv": "CSV",
        ".tsv": "TSV",
        ".parquet": "Parquet",
        ".arrow": "Arrow",
        ".yaml": "YAML",
        ".yml": "YAML",
        ".xlsx": "Excel",
    }
)
_PAGE = re.compile(rb"\s*<(!doctype html|html|head|body|\?xml)", re.IGNORECASE)
_OBJECT_ID = re.compile(rb"\s*[0-9a-f]{40}\s*")
_ANNEX = re.compile(rb"\s*(\.\./)*(\.git)?/annex/objects/\S+\s*")


def placeholder(content: bytes) -> tuple[str, str] | None:
    """Returns what the file is instead of records, and what to do; None when nothing shows."""
    text = content.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        return "the file is empty", "Check that it was written or downloaded completely"
    if text.startswith(b"version https://git-lfs.github.com/spec/"):
        return "the file is a Git LFS pointer, not the data", "Run `git lfs pull`"
    if _ANNEX.fullmatch(text[:4096]):
        return "the file is a git-annex pointer, not the data", "Run `git annex get` on it"
    if _OBJECT_ID.fullmatch(text[:4096]):
        return (
            "the file holds a Git object id only, not the data",
            "The data were removed from that repository; fetch them from where they are kept",
        )
    if _PAGE.match(text):
        return (
            "the file is an HTML or XML page, not the data",
            "Download it again; a login or error page was probably saved under its name",
        )
    return None


def other_format(content: bytes, name: str) -> tuple[str, str] | None:
    """Returns what kind of file this is when it is one that is not read, and what to do."""
    suffix = PurePath(name).suffix.lower()
    compression = next((kind for magic, kind in _MAGIC if content.startswith(magic)), None)
    compression = compression or _COMPRESSED_NAMES.get(suffix)
    if compression:
        return f"compressed files are not read ({compression})", "Unpack it first"
    if content.startswith(b"PAR1"):
        return "Parquet files are not read", "Write its rows as JSONL"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file is UTF-16", "Save it as UTF-8"
    if suffix in _OTHER_FORMATS:
        return f"{_OTHER_FORMATS[suffix]} files are not read", "Write its rows as JSONL"
    return None
