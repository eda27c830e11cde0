"""What every conclusion is conditional on."""

import dataclasses

from sweeper.report.discretion import discretion
from sweeper.report.parts.fixed import data_splits, environment, fixed_settings
from sweeper.selection.chain import EntryKind, link_after

QUIET, OPEN = discretion(with_paths=False, hosts=[]), discretion(with_paths=True, hosts=[])


def values(table):
    return {row["setting"]: row["value"] for row in table.rows}


def test_all_settings_but_the_compared_one_are_listed_with_their_defaults(dossiers):
    found = values(fixed_settings(dossiers["answered"]))

    assert "training.learning_rate" not in found
    assert {key: found[key] for key in ("lora.rank", "training.clip_norm", "seeds")} == {
        "lora.rank": "16",
        "training.clip_norm": "1",
        "seeds": "0, 1, 2, 3, 4",
    }
    assert found["budget.target_tokens"] == "4000"
    assert "data.packing" not in found, "what is not set is left out"


def test_of_an_absolute_path_the_name_alone_is_shown(dossiers):
    dossier = dossiers["answered"]
    model = dossier.settings.model.model_copy(update={"path": "/home/eve/models/base"})
    settings = dossier.settings.model_copy(update={"model": model})

    quiet = dataclasses.replace(dossier, settings=settings, discretion=QUIET)
    shown = dataclasses.replace(dossier, settings=settings, discretion=OPEN)

    assert values(fixed_settings(quiet))["model.path"] == "base"
    assert values(fixed_settings(shown))["model.path"] == "/home/eve/models/base"


def test_the_data_are_those_of_the_chain(dossiers):
    train = {"records": 7, "target_tokens": 70, "records_digest": "a", "tokens_digest": "b"}
    test = {"records": 3, "records_digest": "c", "overlap_checked": True}
    facts = {"study": "x", "data": {"splits": {"train": train}, "test": test}}
    link = link_after(None, EntryKind.STUDY_CREATED, facts, at="2026-03-01T12:00:00")

    table = data_splits(dataclasses.replace(dossiers["answered"], links=(link,)))

    assert [list(row.values()) for row in table.rows] == [
        ["train", 7, 70, "a"],
        ["test (sealed)", 3, None, "c"],
    ]
    assert data_splits(dataclasses.replace(dossiers["answered"], links=())) is None


def test_an_environment_that_differs_names_the_trials(dossiers):
    dossier = dossiers["young"]
    half = dataclasses.replace(dossier.evidence.cell("half", 0), environment={"device": "H200"})
    cells = (half, dossier.evidence.cell("baseline", 0))
    evidence = dataclasses.replace(dossier.evidence, cells=cells)

    rows = environment(dataclasses.replace(dossier, evidence=evidence)).rows

    device = next(row["value"] for row in rows if row["field"] == "device")
    assert sorted(device.split("; ")) == ["H200 (half/0)", "cpu (baseline/0)"]
