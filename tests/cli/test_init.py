"""`sweeper init`: a study file that is valid as it stands, and never over another."""

from sweeper.study.loading import load_study


def test_the_file_is_a_valid_study(sweeper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    ran = sweeper("init")

    study_file = load_study(tmp_path / "study.yaml")
    assert ran.status == 0
    assert ran.out == "Wrote study.yaml. Edit its model and its data.\n"
    assert ran.err == "Next: sweeper check study.yaml\n"
    assert study_file.study.compare.multiply == {"half": 0.5, "baseline": 1, "double": 2}
    assert study_file.not_yet == ()


def test_a_folder_is_made_for_it(sweeper, tmp_path):
    folder = tmp_path / "my studies" / "rates"

    ran = sweeper("init", folder)

    assert (folder / "study.yaml").is_file()
    assert ran.err == f"Next: sweeper check '{folder}/study.yaml'\n"


def test_the_name_of_a_file_is_not_made_a_folder(sweeper, tmp_path):
    ran = sweeper("init", tmp_path / "rates.yaml")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        f"error: {tmp_path}/rates.yaml: that is the name of a file, and study.yaml is put into a "
        f"folder. Name the folder: `sweeper init {tmp_path}`.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_study_file_that_is_there_is_left_as_it_is(sweeper, tmp_path):
    (tmp_path / "study.yaml").write_text("mine")

    ran = sweeper("init", tmp_path)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        f"error: {tmp_path}/study.yaml: a study file is already there, and it is left as it is. "
        "Name another folder: `sweeper init FOLDER`.\n"
    )
    assert (tmp_path / "study.yaml").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused(sweeper, tmp_path):
    (tmp_path / "file").write_text("")

    ran = sweeper("init", tmp_path / "file")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        f"error: {tmp_path}/file/study.yaml: the study file cannot be written (got File exists). "
        "Name a folder that you may write to: `sweeper init FOLDER`.\n"
    )
