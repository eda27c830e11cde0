"""`sweeper worker`: what it refuses; what it does is in tests/sweep/test_workers.py."""


def test_an_sqlite_study_is_refused_with_the_way_out(sweeper, begun):
    ran = sweeper("worker", "study.yaml")

    assert ran.status == 2
    assert ran.err.startswith("error: run.storage: workers on several hosts share a study")
    assert "expected postgresql+psycopg://USER:${PASSWORD}@HOST/DATABASE" in ran.err
    assert "`--as NEW-NAME`" in ran.err, "the study has begun on SQLite"
    assert "run.launcher" in ran.err
    assert not begun.folder.workers
