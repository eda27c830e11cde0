"""`sweeper report`: where it writes, and what comes next."""

FIGURES = ("endpoint-losses", "exposure", "gradient-norms", "loss-by-tokens", "memory")


def test_the_page_and_its_figures_lie_in_the_run_folder(sweeper, studies, tmp_path):
    recorded = studies.finish(tmp_path)

    ran = sweeper("report", recorded.file)

    page = recorded.folder.path / "report" / "report.html"
    assert (ran.status, ran.out) == (0, f"{page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    figures = {file.name for file in (page.parent / "figures").iterdir()}
    endings = ("svg", "png", "csv")
    assert {f"{name}.{ending}" for name in FIGURES for ending in endings} <= figures
    assert ran.err == f"Next: sweeper select {recorded.file}\n"


def test_it_goes_where_it_is_told_and_a_running_study_has_one_too(sweeper, studies, tmp_path):
    recorded = studies.begin(tmp_path)

    ran = sweeper("report", recorded.folder.path, "--out", tmp_path / "for others")

    assert ran.status == 0
    page = (tmp_path / "for others" / "report.html").read_text(encoding="utf-8")
    assert "In progress" in page
    assert not recorded.folder.report.exists()


def test_a_folder_that_cannot_be_written_is_named(sweeper, studies, tmp_path):
    recorded = studies.begin(tmp_path)
    (tmp_path / "file").write_text("in the way")

    ran = sweeper("report", recorded.file, "--out", tmp_path / "file")

    assert ran.status != 0
    assert "the report cannot be written" in ran.err
    assert f"{tmp_path}/file" in ran.err
