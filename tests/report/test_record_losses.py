"""The losses of single records: read from the files that the database names, and checked."""

import hashlib

import pandas as pd
import pytest

import sweeper
from sweeper.errors import NotFound, RunFolderError

VALIDATION = pd.DataFrame(
    {
        "digest": ["aa", "bb"],
        "group": ["g1", "g2"],
        "target_tokens": [3, 5],
        "loss_sum": [1.5, 0.1 + 0.2],
    }
)
FOLDER = "trials/baseline-0/attempts/1"


@pytest.fixture
def measured(studies, tmp_path):
    """A study with one trial, whose two evaluations of validation left the records' losses."""
    recorded = studies.found(tmp_path)
    folder = recorded.folder.path / FOLDER
    folder.mkdir(parents=True)
    content = VALIDATION.to_parquet(None, index=False)
    digest = hashlib.sha256(content).hexdigest()
    (folder / "0.parquet").write_bytes(content)
    (folder / "1.parquet").write_bytes(content)
    with recorded.open() as store:
        claim = store.claim(studies.living_owner(), "cpu:0", cell="baseline/0")
        studies.report(
            store,
            claim,
            studies.started("baseline/0"),
            studies.evaluation(0, per_record_path="0.parquet", per_record_sha256=digest),
            studies.evaluation(0, split="retention"),
            studies.update(1),
            studies.evaluation(1, per_record_path="1.parquet", per_record_sha256=digest),
        )
    return recorded


def test_every_record_is_a_row_of_every_evaluation_that_left_a_file(measured):
    frame = sweeper.record_losses(measured.file)

    assert frame.to_dict("list") == {
        "trial": ["baseline/0"] * 4,
        "arm": ["baseline"] * 4,
        "seed": [0] * 4,
        "split": ["validation"] * 4,
        "grid_index": [0, 0, 1, 1],
        "digest": ["aa", "bb"] * 2,
        "group": ["g1", "g2"] * 2,
        "target_tokens": [3, 5] * 2,
        "loss_sum": [1.5, 0.1 + 0.2] * 2,
    }
    assert str(frame["target_tokens"].dtype) == "Int64"


def test_one_trial_may_be_asked_for(measured):
    assert len(sweeper.record_losses(measured.file, "baseline/0")) == 4
    assert sweeper.record_losses(measured.file, "half/0").empty
    with pytest.raises(NotFound, match="no trial half/9"):
        sweeper.record_losses(measured.file, "half/9")


def test_without_such_files_the_columns_and_their_types_are_there(begun):
    frame = sweeper.record_losses(begun.file)

    assert list(frame.columns) == list(sweeper.record_losses(begun.file, "half/0").columns)
    assert frame.empty
    assert str(frame["loss_sum"].dtype) == "float64"


def test_files_that_changed_or_are_gone_are_all_named(measured):
    folder = measured.folder.path / FOLDER
    (folder / "0.parquet").unlink()
    with (folder / "1.parquet").open("ab") as stream:
        stream.write(b"\0")

    with pytest.raises(RunFolderError) as refusal:
        sweeper.record_losses(measured.file)

    gone, changed = refusal.value.faults
    assert (gone.where, gone.got) == (str(folder / "0.parquet"), "No such file or directory")
    assert changed.where == str(folder / "1.parquet")
    assert changed.what.endswith("are not what the trial wrote")
