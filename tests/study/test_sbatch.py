"""What a study may tell Slurm, and what it may not."""

from __future__ import annotations

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.loading import load_study
from sweeper.study.run_options import DaskLauncher, RayLauncher, SlurmLauncher
from sweeper.study.sbatch import fault_in_option, option_argument

RUN = "run: {micro_batch: 2}"


@pytest.mark.parametrize(
    ("name", "value", "argument"),
    [
        ("partition", "gpu", "--partition=gpu"),
        ("cpus_per_task", 4, "--cpus-per-task=4"),
        ("cpus-per-task", 4, "--cpus-per-task=4"),
        ("gres", "gpu:a100:1", "--gres=gpu:a100:1"),
        ("comment", "two words; $(none) is run", "--comment=two words; $(none) is run"),
        ("exclusive", True, "--exclusive"),
        ("exclusive", False, None),
    ],
)
def test_options_of_sbatch_are_passed_on_as_one_argument_each(name, value, argument) -> None:
    assert fault_in_option(name, value) is None
    assert option_argument(name, value) == argument


@pytest.mark.parametrize(
    "name",
    [
        "job_name",
        "job-name",
        "output",
        "error",
        "array",
        "requeue",
        "no_requeue",
        "wrap",
        "chdir",
        "export",
        "signal",
        "clusters",
    ],
)
def test_what_makes_a_job_ours_is_not_the_users_to_set(name) -> None:
    assert fault_in_option(name, "x") == "sweeper sets this option of sbatch itself"


@pytest.mark.parametrize(
    ("name", "whole"), [("out", "output"), ("j", "job-name"), ("req", "requeue"), ("sig", "signal")]
)
def test_a_beginning_of_such_a_name_does_not_slip_through(name, whole) -> None:
    told = fault_in_option(name, "x")

    assert told == f"sbatch would read this as {whole}, which sweeper sets itself"


@pytest.mark.parametrize("name", ["", "-p", "--partition", "Partition", "mem=1G", "a b", "x\n"])
def test_what_is_no_name_is_none(name) -> None:
    assert fault_in_option(name, "x") == "not the long name of an option of sbatch"


@pytest.mark.parametrize("value", ["", "a\nb", "a\0b"])
def test_a_value_is_one_line(value) -> None:
    assert fault_in_option("comment", value) == "not a value for an option of sbatch"


def test_faults_are_told_with_their_line_and_all_at_once(write_study) -> None:
    launcher = "{kind: slurm, sbatch: {job_name: mine, gres: 'gpu:1', --mem: 8G}}"
    file = write_study((RUN, f"run:\n  micro_batch: 2\n  launcher: {launcher}"))

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    expected = "expected an option of sbatch by its long name, such as partition, gres, time"
    told = str(caught.value)
    assert (
        "study.yaml:21: run.launcher.sbatch.job_name: sweeper sets this option of sbatch itself"
        f" ({expected} or cpus_per_task)." in told
    )
    assert "run.launcher.sbatch.--mem: not the long name of an option of sbatch" in told
    assert "sbatch.gres" not in told


@pytest.mark.parametrize(
    ("launcher", "fault"),
    [
        ("{kind: slurm, jobs: 0}", "run.launcher.jobs: out of range"),
        ("{kind: slurm, sbatch: {time: 1.5}}", "run.launcher.sbatch.time: not a whole number"),
        ("{kind: slurm, gpus: 1}", "run.launcher.gpus: unknown key"),
        ("{kind: ray, cpus: 0}", "run.launcher.cpus: out of range"),
        ("{kind: ray, gpus: -1}", "run.launcher.gpus: out of range"),
        ("{kind: dask, resources: {GPU: 0}}", "run.launcher.resources.GPU: out of range"),
        ("{kind: local, jobs: 2}", "run.launcher.jobs: unknown key"),
    ],
)
def test_the_options_of_a_launcher_are_strict(write_study, launcher, fault) -> None:
    file = write_study((RUN, f"run:\n  micro_batch: 2\n  launcher: {launcher}"))

    with pytest.raises(StudyFileError) as caught:
        load_study(file)

    assert fault in str(caught.value)


def test_an_engine_takes_one_job_per_cell_and_no_gpu_unless_told() -> None:
    slurm = SlurmLauncher(kind="slurm")
    ray, dask = RayLauncher(kind="ray"), DaskLauncher(kind="dask")

    assert (slurm.jobs, ray.jobs, dask.jobs) == (None, None, None)
    assert (slurm.sbatch, slurm.setup) == ({}, None)
    assert (ray.cpus, ray.gpus, dask.resources) == (1, 0, {})
