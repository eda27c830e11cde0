"""What a STUDY argument may be, and what each wrong one is told."""

import shutil
from pathlib import Path

import pytest

from sweeper.errors import NotFound, StudyConflict, StudyFileError
from sweeper.report.comparison import compare, taken_choice
from sweeper.report.diagnosis import diagnose
from sweeper.report.dossier import read_dossier
from sweeper.report.recorded import check_trial, reading, run_folder, study_to_run
from sweeper.report.run_tables import stability
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder


def test_a_study_file_means_the_folder_of_its_name_beside_it(finished):
    assert run_folder(finished.file).path == finished.file.parent / "runs" / "rates"


def test_a_run_folder_means_itself(finished):
    assert run_folder(finished.folder.path) == finished.folder


def test_a_relative_path_and_text_will_do(finished, monkeypatch):
    monkeypatch.chdir(finished.file.parent)

    assert run_folder("study.yaml") == run_folder("runs/rates") == finished.folder


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (
            "nothing.yaml",
            (
                "nothing.yaml: there is no such study file or run folder. "
                "Write one with `sweeper init`, or name an existing one."
            ),
        ),
        (
            "study.yaml",
            (
                "{here}/runs/rates: no study has begun in this folder. "
                "Start it with `sweeper run study.yaml`."
            ),
        ),
        (
            ".",
            (
                "{here}: no study has begun in this folder. "
                "Name a study file, or the folder runs/NAME that a run of it made."
            ),
        ),
    ],
)
def test_what_is_not_on_record_is_refused(studies, tmp_path, monkeypatch, study, message):
    studies.write_file(tmp_path)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NotFound) as refusal:
        run_folder(study)

    assert str(refusal.value) == message.format(here=tmp_path)


def test_a_study_file_with_faults_is_refused_as_such(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("nme: x\n")

    with pytest.raises(StudyFileError, match="nme"):
        run_folder(file)


def test_a_database_without_a_study_has_not_begun(studies, tmp_path):
    file = studies.write_file(tmp_path)
    folder = StudyFolder.beside(file, "rates")
    folder.path.mkdir(parents=True)
    StudyStore.create(folder.database_url).close()

    with (
        pytest.raises(NotFound, match=r"no study has begun.*Start it with `sweeper run`"),
        reading(file),
    ):
        pass


def test_reading_changes_nothing_on_disk(finished):
    before = finished.folder.database.read_bytes()

    with reading(finished.file) as store:
        store.trials()

    assert finished.folder.database.read_bytes() == before


def test_an_unknown_trial_is_refused_with_the_nearest(begun):
    with reading(begun.file) as store, pytest.raises(NotFound) as refusal:
        check_trial(store, "duoble/1")

    assert str(refusal.value) == (
        "the study has no trial duoble/1 (expected baseline/0, half/0, double/0, baseline/1, "
        "half/1, double/1, baseline/2, half/2, double/2). Did you mean double/1?"
    )


def test_a_trial_like_no_other_is_refused_with_the_form(begun):
    with reading(begun.file) as store, pytest.raises(NotFound) as refusal:
        check_trial(store, "7")

    assert str(refusal.value).endswith("Write arm and seed, as in double/2.")


def test_no_trial_means_all(begun):
    with reading(begun.file) as store:
        assert check_trial(store, None) is None


def test_a_study_to_run_is_read_from_its_file(finished):
    assert study_to_run(finished.file).path == finished.file


def test_a_run_folder_goes_on_as_recorded_under_its_own_name_and_place(studies, tmp_path):
    recorded = studies.finish(tmp_path)
    renamed = recorded.folder.path.with_name("again")
    recorded.folder.path.rename(renamed)

    study_file = study_to_run(renamed)

    assert study_file.study.name == "again"
    assert StudyFolder.beside(study_file.path, "again").path == renamed
    assert study_file.path.parent == tmp_path, "relative paths are relative to the study file"
    assert study_file.study.training.learning_rate == 2e-4


def test_a_run_folder_that_was_moved_away_is_read_but_not_run(studies, tmp_path):
    recorded = studies.finish(tmp_path)
    moved = Path(shutil.move(recorded.folder.path, tmp_path / "elsewhere"))

    assert run_folder(moved).path == moved
    with pytest.raises(NotFound) as refusal:
        study_to_run(moved)

    assert str(refusal.value) == (
        f"{moved}: a run folder that was moved can be read, but not run "
        "(expected runs/NAME beside the study file). Name the study file."
    )


def test_a_folder_without_a_study_is_not_run(tmp_path):
    with pytest.raises(NotFound, match="no study has begun in this folder"):
        study_to_run(tmp_path)


def with_another_rule(study):
    """The study once somebody has changed a rule, and a limit, in its run folder."""
    file = study.folder.recorded_study
    text = file.read_text("utf-8").replace("smallest_difference: 0.25", "smallest_difference: 1.0")
    file.write_text(text.replace("max_resumes: 0", "max_resumes: 2"), "utf-8")
    return study


@pytest.mark.parametrize(
    "conclude",
    [compare, taken_choice, read_dossier, stability, lambda study: diagnose(study, "half/1")],
    ids=["compare", "taken choice", "report", "stability", "diagnose"],
)
def test_nothing_is_concluded_by_rules_that_were_not_agreed_on(studies, tmp_path, conclude):
    study = with_another_rule(studies.finish(tmp_path))

    with pytest.raises(StudyConflict) as refusal:
        conclude(study.file)

    assert str(refusal.value) == (
        f"{study.folder.recorded_study}: the study file in the run folder is not the one that was "
        "agreed on, and nothing is concluded by it (got selection.smallest_difference 1.0; "
        "expected selection.smallest_difference 0.25). Put it back as it was when the study began; "
        f"`sweeper audit {study.folder.path}` says what else differs."
    )


def test_what_is_on_record_can_be_read_all_the_same(studies, tmp_path):
    study = with_another_rule(studies.finish(tmp_path))

    with reading(study.file) as store:
        assert len(store.trials()) == 9
