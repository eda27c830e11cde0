"""What a node is told of the coordinator's environment."""

from __future__ import annotations

import pytest

from sweeper.workers.launchers.node_environment import node_environment


def test_what_matters_to_python_its_libraries_and_caches_is_passed_on() -> None:
    environ = {"PATH": "/a:/b", "LC_ALL": "C", "HF_HOME": "/cache", "NCCL_DEBUG": "INFO"}

    assert node_environment(environ, withheld=()) == dict(sorted(environ.items()))


@pytest.mark.parametrize(
    "name",
    ["CUDA_VISIBLE_DEVICES", "PGPASSWORD", "MY_SETTING", "SLURM_JOB_ID", "AWS_SECRET_ACCESS_KEY"],
)
def test_what_nobody_knows_stays_at_home_as_does_what_the_engine_decides(name) -> None:
    assert node_environment({name: "x"}, withheld=()) == {}


@pytest.mark.parametrize("name", ["HF_TOKEN", "HF_API_KEY", "TORCH_PASSWORD"])
def test_names_that_promise_a_secret_are_left_out_of_what_else_is_passed_on(name) -> None:
    assert node_environment({name: "x"}, withheld=()) == {}


def test_what_a_withheld_variable_holds_leaves_under_no_other_name() -> None:
    environ = {"HF_DB": "s3cret", "HF_URL": "postgresql://me:s3cret@host/db", "HF_HOME": "/cache"}

    assert node_environment(environ, withheld=["HF_DB"]) == {"HF_HOME": "/cache"}
