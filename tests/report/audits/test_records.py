"""Files with the losses of single records that are gone or changed: found, and told by name."""

from __future__ import annotations

import hashlib

import pandas as pd
import pytest

from sweeper.cli.main import main
from sweeper.report.dossier import read_dossier
from sweeper.report.parts.limits import limits

ABOUT = "The losses of single records"
LEFT_OUT = (
    "half is not compared with baseline record by record: the file with the losses of single "
    "records of half/2 is gone or changed."
)
NOT_COMPARED = "The losses of single validation records are not compared here"


@pytest.fixture
def scored(decided, change):
    """The study of `decided`, with two records in a file of each trial."""
    for arm in ("baseline", "half"):
        for seed in range(5):
            file = file_of(decided, arm, seed)
            file.parent.mkdir(parents=True, exist_ok=True)
            sums = [30.0 + (arm == "half") + seed / 10, 34.0 - seed / 20]
            records = {"digest": ["a", "b"], "group": ["a", "b"], "target_tokens": [20, 20]}
            pd.DataFrame({**records, "loss_sum": sums}).to_parquet(file, index=False)
            sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
            path = file.relative_to(decided.folder.path).as_posix()
            change(
                decided,
                f"UPDATE sweeper_evaluation SET per_record_path = '{path}', per_record_sha256 = "
                f"'{sha256}' WHERE cell = '{arm}/{seed}' AND grid_index = 1"
                " AND split = 'validation'",
            )
    return decided


def file_of(study, arm, seed):
    attempt = study.folder.attempt(arm=arm, seed=seed, number=1)
    return attempt / "evaluations" / "validation-0001.parquet"


@pytest.fixture(params=["gone", "changed"])
def damaged(scored, request):
    """The file of half/2 is gone, or one of its bytes is another."""
    file = file_of(scored, "half", 2)
    content = bytearray(file.read_bytes())
    file.unlink()
    if request.param == "changed":
        content[40] ^= 1
        file.write_bytes(content)
    return scored


def compared(study, capsys):
    with pytest.raises(SystemExit):
        main(["compare", str(study.file)])
    return capsys.readouterr().out


def test_files_that_are_as_they_were_left_are_sound_and_compared(scored, findings, capsys):
    assert findings(scored, ABOUT) == []
    assert "half - baseline over 2 records of this validation split" in compared(scored, capsys)


def test_a_damaged_file_is_found(damaged, findings):
    assert findings(damaged, ABOUT) == [
        (
            "half/2: losses of single records are gone, or not as they were left: "
            "trials/half-2/attempts/1/evaluations/validation-0001.parquet."
        ),
    ]


def test_a_damaged_file_is_told_where_its_arm_was_compared(damaged, capsys):
    shown = compared(damaged, capsys)

    assert "\nRecord by record\n" + LEFT_OUT in shown
    assert "half - baseline over 2 records" not in shown


def test_a_damaged_file_is_a_limit_in_the_report(damaged):
    said = limits(read_dossier(damaged.file))

    assert [each for each in said if each.startswith(LEFT_OUT)] != []
    assert [each for each in said if each.startswith(NOT_COMPARED)] == []
