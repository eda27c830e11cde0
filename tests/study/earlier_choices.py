"""Run folders of studies with a frozen choice: the plan and the chain's mirror, without a trial.

Loaded by its path; see `earlier_choices` in tests/conftest.py.
"""

import json

from sweeper.selection.chain import EntryKind, link_after
from sweeper.selection.frozen import Frozen, Tables
from sweeper.study.chain_file import complete_chain_file
from sweeper.study.fingerprint import fingerprint

FROZEN_AT = "2026-05-01T10:00:00.000Z"
OPENED_AT = "2026-05-02T10:00:00.000Z"

INTENT = (EntryKind.TEST_INTENT, {"frozen": "f"})
RESULT = (
    EntryKind.TEST_RESULT,
    {
        "opening": 1,
        "frozen": "f",
        "chosen": "half",
        "records_digest": "sealed",
        "records_read": 4,
        "records": 4,
        "target_tokens": 8,
        "set_digest": "s",
        "overlaps": [],
        "losses": [],
    },
)


def freeze(
    folder, protocol, *, arm="half", name="earlier", budget=17, before=(), after=(), **facts
):
    """Writes the folder; returns the links of its chain.

    `before` and `after` are entries about the frozen choice's, each a kind with its facts.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    mark = fingerprint(protocol)
    plan = {"name": name, "protocol": protocol, "fingerprint": mark, "data": {}}
    folder.plan.write_text(json.dumps({**plan, "budget_target_tokens": budget}))
    choice = Frozen(
        number=1,
        arm=arm,
        sentence=f"{arm} is chosen.",
        answer=f"Yes: {arm} is better.",
        protocol=mark,
        tables=Tables(trials="t", arms="a", differences="d"),
        checkpoints=(),
        metric="validation_loss",
        environment="e",
        **facts,
    )
    created = {"study": name, "protocol": mark, "data": {}}
    entries = [
        (EntryKind.STUDY_CREATED, created, FROZEN_AT),
        *((kind, told, FROZEN_AT) for kind, told in before),
        (EntryKind.SELECTION_FROZEN, choice.to_facts(), FROZEN_AT),
        *((kind, told, OPENED_AT) for kind, told in after),
    ]
    links = []
    for kind, told, at in entries:
        links.append(link_after(links[-1] if links else None, kind, told, at=at))
    folder.chain.unlink(missing_ok=True)
    complete_chain_file(folder.chain, lambda: links)
    return links
