"""What a page that is passed on leaves out: host names, absolute paths, words of records. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sweeper.records import OutcomeKind

PATH, HOST = "[path left out]", "[host left out]"
LEFT_OUT = "(its words are left out: they may quote a record)"

_PATH = re.compile(
    r"(?:\b(?:file|sqlite|postgresql)[\w+]*:/+|(?<![\w.:/\\<-])~?/(?=[\w.@~-])|\b[A-Za-z]:\\)"
    r"[^\s'\"<>()\[\]{},;]*[^\s'\"<>()\[\]{},;.:]"
)
"""An absolute path, one that begins at a home folder, a URL of a file or a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discretion:
    """Whether paths, hosts and foreign words are shown.

    Attributes:
        hosts: Names that are hosts' in what trials and coordinators said.
    """

    with_paths: bool
    hosts: frozenset[str] = frozenset()

    def prose(self, text: str) -> str:
        """Returns any text without absolute paths."""
        return text if self.with_paths else _PATH.sub(PATH, text)

    def foreign(self, text: str) -> str:
        """Returns what a trial or a coordinator said, without paths and hosts."""
        if self.with_paths:
            return text
        shown = self.prose(text)
        for host in sorted(self.hosts, key=len, reverse=True):
            shown = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", HOST, shown)
        return shown

    def detail(self, text: str, outcome: OutcomeKind | None) -> str:
        """Returns the sentence behind a trial's end.

        That of a failed trial is an error of some library, which may say anything.
        """
        if outcome is OutcomeKind.FAILED and not self.with_paths:
            return ""
        return self.foreign(text)


def discretion(*, with_paths: bool, hosts: Iterable[object]) -> Discretion:
    """Returns what is left out; hosts that are not known are none."""
    names = {str(host) for host in hosts if host}
    return Discretion(with_paths=with_paths, hosts=frozenset(names - {"", "localhost"}))
