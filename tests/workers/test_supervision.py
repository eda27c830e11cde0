from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from sweeper.files import write_whole
from sweeper.workers.supervision import Cause, Supervision

SUPERVISION = Supervision(
    cause=Cause.HUNG,
    detail="no event for 9 s",
    pid=1,
    started_at=1.25,
    exit_status=None,
    signal=9,
    wall_seconds=0.1,
    peak_memory_bytes=3,
    supervisor_pid=2,
    supervisor_started_at=None,
    began_at=datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC),
    ended_at=datetime(2026, 1, 2, 12, 1, tzinfo=UTC),
)


def test_a_supervision_read_is_the_one_written(tmp_path):
    SUPERVISION.write(tmp_path / "supervision.json")

    assert Supervision.read(tmp_path / "supervision.json") == SUPERVISION


def test_a_file_that_is_not_there_is_no_supervision(tmp_path):
    assert Supervision.read(tmp_path / "supervision.json") is None


@pytest.mark.parametrize("missing", ["cause", "began_at", "signal"])
def test_a_file_that_lacks_a_field_is_refused(tmp_path, missing):
    plain = SUPERVISION.to_plain()
    del plain[missing]
    (tmp_path / "supervision.json").write_text(json.dumps(plain), encoding="utf-8")

    with pytest.raises(ValueError, match="not a supervision"):
        Supervision.read(tmp_path / "supervision.json")


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    file = tmp_path / "x.json"
    file.write_text("old", encoding="utf-8")

    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "new \udc80", durable=True)

    assert file.read_text("utf-8") == "old"
