"""What docs/scaling.md shows is what a study file may say."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sweeper.study.run_options import RunOptions
from sweeper.study.sbatch import fault_in_option

DOCUMENT = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", DOCUMENT, flags=re.DOTALL)
SECTIONS = [YAML(typ="safe").load(block)["run"] for block in BLOCKS]


def kind_of(section):
    return section.get("launcher", {"kind": "local"})["kind"]


@pytest.mark.parametrize("section", SECTIONS, ids=kind_of)
def test_a_run_section_is_valid(section):
    run = RunOptions.model_validate(section)

    assert run.launcher.kind == kind_of(section)


def test_the_options_of_sbatch_are_the_users_to_set():
    (sbatch,) = (s["launcher"]["sbatch"] for s in SECTIONS if kind_of(s) == "slurm")

    assert [fault_in_option(name, value) for name, value in sbatch.items()] == [None] * 5


@pytest.mark.parametrize(
    "file", sorted(set(re.findall(r"\b(?:scripts|tests)/[a-z_/.]+", DOCUMENT)))
)
def test_every_file_that_is_named_exists(file):
    assert (Path(__file__).parents[2] / file).exists()
