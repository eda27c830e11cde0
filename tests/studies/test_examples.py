"""Every study file in the repository is one that runs."""

import re
from pathlib import Path

import pytest

from sweeper.cli.main import application
from sweeper.study.loading import load_study

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda f: f.name)
def test_an_example_study_is_valid_and_named_after_its_file(file):
    assert load_study(file).study.name == file.stem


@pytest.mark.parametrize("name", ["quickstart", "unstable", "smollm2"])
def test_an_example_compares_half_baseline_and_double(name):
    study = load_study(ROOT / "studies" / f"{name}.yaml").study

    assert study.compare.multiply == {"half": 0.5, "baseline": 1, "double": 2}


def test_the_study_in_the_readme_is_valid(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    file = tmp_path / "study.yaml"
    file.write_text(block, encoding="utf-8")

    assert load_study(file).study.seeds == (0, 1, 2, 3, 4)


def test_every_command_in_the_readme_exists():
    named = set(re.findall(r"^    sweeper ([a-z-]+)", README, flags=re.MULTILINE))

    commands = application().registered_commands
    known = {command.callback.__name__.replace("_", "-") for command in commands}
    assert named == known


@pytest.mark.parametrize("script", sorted(set(re.findall(r"scripts/[a-z_]+(?:\.py)?", README))))
def test_every_script_in_the_readme_exists(script):
    assert (ROOT / script).exists()
