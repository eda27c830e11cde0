"""What a trial says may be anything: it is stored so that it harms no table and no terminal."""

from __future__ import annotations

import contextlib
import json
import re

import optuna
import pandas as pd
import pytest

from sweeper.cli.main import main
from sweeper.store.plain import LONGEST_DETAIL, LONGEST_TEXT
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.slow  # real studies, though of trials without torch

UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]")
PROSE = '"\\0 \\e[31m [red]x[/red] \\u202E <b>"'


@pytest.fixture(params=["file", "server"])
def hostile(request, small, tmp_path):
    """A study whose file and whose first trial say such things, after its run."""
    storage = request.getfixturevalue("on_server") if request.param == "server" else "sqlite"
    study = small(tmp_path, storage=storage)
    study.file.path.write_text(study.file.path.read_text().replace("Nobody has looked.", PROSE))
    study = small(tmp_path)
    study.behave({"half/0": ["hostile"]})
    study.run()
    return study


@pytest.fixture
def printed(capsys):
    """Runs a command line and returns what it printed."""

    def run(*words):
        with contextlib.suppress(SystemExit):
            main([str(word) for word in words])
        return capsys.readouterr()

    return run


def test_such_text_is_stored_readable_and_harms_no_table_and_no_terminal(
    hostile, printed, tmp_path
):
    with StudyStore.read(hostile.url) as store:
        (row,) = store.trials("half/0")
        (attempt,) = store.attempts("half/0")
        notes = store.notes("half/0")
    assert (row["outcome"], row["reason"]) == ("failed", "code_error")
    assert "\\x1b[31m" in row["detail"]
    assert "[red]bold[/red] <script>alert(1)</script>" in row["detail"]
    assert "characters left out" in row["detail"]
    assert len(row["detail"]) <= LONGEST_DETAIL
    evidence = json.loads(attempt["evidence"])
    assert max(map(len, evidence.values())) == LONGEST_TEXT
    assert "[5000000 characters; the middle is left out]" in evidence["long"]
    assert "\\udce9" in evidence["stderr_tail"] or "\ufffd" in evidence["stderr_tail"]
    (notice,) = [n.event.record.message for n in notes if hasattr(n.event.record, "message")]
    assert len(notice) == LONGEST_TEXT
    texts = [row["detail"], attempt["evidence"], notice, *evidence, *evidence.values()]
    assert [UNREADABLE.search(text) for text in texts] == [None] * len(texts)

    folder, parquet = hostile.folder.path, tmp_path / "t.parquet"
    json.loads(printed("trials", folder, "--json").out)
    json.loads(printed("show", folder, "half/0", "--json").out)
    printed("trials", folder, "--parquet", parquet)
    assert list(pd.read_parquet(parquet)["detail"])[1] == row["detail"]
    shown = [
        printed("status", folder),
        printed("trials", folder),
        printed("trials", folder, "--csv"),
        printed("show", folder, "half/0"),
        printed("logs", folder, "half/0"),
        printed("diagnose", folder, "half/0"),
        printed("compare", folder),
        printed("ls", folder),
    ]
    assert "[red]bold[/red]" in shown[3].out
    assert all(UNREADABLE.search(output.out + output.err) is None for output in shown)

    storage = optuna.storages.RDBStorage(hostile.url)
    (failed,) = [
        trial
        for trial in optuna.load_study(study_name="small", storage=storage).get_trials()
        if trial.user_attrs["cell"] == "half/0"
    ]
    storage.remove_session()
    storage.engine.dispose()
    assert failed.user_attrs["detail"] == row["detail"]


def test_what_is_told_while_it_runs_is_readable(study, recorder, capsys):
    import sys

    from sweeper.cli.live import Lines

    study.behave({"baseline/0": ["hostile"]})
    study.run(observer=Lines(sys.stderr))

    told = capsys.readouterr().err
    assert "\\x1b[31m" in told
    assert UNREADABLE.search(told) is None
