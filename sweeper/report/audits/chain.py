"""The chain itself: whole, the same in both places, and still the one that somebody remembers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweeper.errors import RunFolderError
from sweeper.report.audits.check import Check, RecordUnderAudit, as_sentence, counted
from sweeper.selection.chain import Link, verify
from sweeper.study.chain_file import read_chain_file


def check_chain(case: RecordUnderAudit) -> Check:
    """Whether the chain in the database is whole."""
    findings = [as_sentence(found.sentence) for found in verify(case.links)]
    if not case.links:
        findings.append("The chain is empty: even the entry on the study's beginning is gone.")
    return Check(
        about="The chain in the database",
        looked_at=counted(len(case.links), "entry", "entries"),
        findings=tuple(findings),
    )


def check_mirror(case: RecordUnderAudit) -> Check:
    """Whether the run folder has the same chain."""
    about = "Its mirror in the run folder"
    try:
        mirror = read_chain_file(case.folder.chain)
    except RunFolderError as error:
        return Check(about=about, looked_at="a file", findings=(as_sentence(str(error)),))
    behind = case.links[: len(mirror)] == mirror and len(mirror) < len(case.links)
    looked_at = counted(len(mirror), "entry", "entries")
    if behind and case.store.live_attempts():
        remark = f"It is {len(case.links) - len(mirror)} behind, for the study is being run."
        return Check(about=about, looked_at=looked_at, findings=(), remarks=(remark,))
    return Check(about=about, looked_at=looked_at, findings=tuple(_mirror_findings(case, mirror)))


def _mirror_findings(case: RecordUnderAudit, mirror: Sequence[Link]) -> Iterator[str]:
    links = case.links
    pairs = zip(links, mirror, strict=False)
    for number, (recorded, copied) in enumerate(pairs, start=1):
        if recorded != copied:
            yield (
                f"Entry {number} is another one in the mirror than in the database: one of the two "
                "was changed."
            )
            return
    if len(mirror) > len(links):
        yield (
            f"The database's chain ends at entry {len(links)}, and the mirror goes on to entry "
            f"{len(mirror)}: the chain was cut, or the database is an older copy."
        )
    elif len(mirror) < len(links):
        yield (
            f"The mirror ends at entry {len(mirror)} of {len(links)}: it was cut, or a coordinator "
            "was killed before it had written on, which the next one makes good."
        )


def check_kept_head(case: RecordUnderAudit, kept: str) -> Check:
    """Whether a head that was kept elsewhere, or its first digits, is one of the chain."""
    place = next((n for n, link in enumerate(case.links, 1) if link.digest.startswith(kept)), None)
    if place is None:
        finding = (
            "It is none of the chain's digests: the chain was made anew since, or entries were cut "
            "off."
        )
        return Check(about="The head kept elsewhere", looked_at=kept[:12], findings=(finding,))
    after = len(case.links) - place
    remark = f"It is that of entry {place}; {counted(after, 'entry', 'entries')} came after it."
    return Check(
        about="The head kept elsewhere", looked_at=kept[:12], findings=(), remarks=(remark,)
    )
