"""The faults of scripts/mutation.py still fit the sources; whether tests catch them, it shows."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_script():
    spec = importlib.util.spec_from_file_location("mutation", ROOT / "scripts/mutation.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutation"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


mutation = load_script()
FAULTS = pytest.mark.parametrize("fault", mutation.FAULTS, ids=lambda fault: fault.name)


def test_there_are_the_ten_classic_faults():
    assert [fault.name for fault in mutation.FAULTS] == [
        "mean of means",
        "clip before unscale",
        "clip per micro-batch",
        "rate off by one",
        "scheduler on skipped windows",
        "scaler not updated",
        "partial window / full A",
        "RNG not restored",
        "optimizer not restored",
        "pad id masked",
    ]


@FAULTS
def test_a_fault_still_applies_once_and_leaves_python(fault):
    """A change of the loop that a fault no longer fits is found here, without running any test."""
    changed = mutation.mutate(ROOT, fault)
    assert all(compile(text, file, "exec") for file, text in changed.items())
    assert all(text != (ROOT / file).read_text("utf-8") for file, text in changed.items())


@FAULTS
def test_the_tests_of_a_fault_are_there(fault):
    assert [module for module in fault.tests if not (ROOT / module).is_file()] == []


@pytest.mark.parametrize(("old", "times"), [("gone", 0), ("x", 2)])
def test_a_replacement_that_does_not_fit_is_named(old, times, tmp_path):
    (tmp_path / "file.py").write_text("x = x\n", "utf-8")
    edit = mutation.Edit(file="file.py", old=old, new="y")
    fault = mutation.Fault(name="unfit", edits=(edit,), tests=())
    message = f"unfit: in file.py this stands {times} times, not once"
    with pytest.raises(mutation.Unfit, match=re.escape(message)):
        mutation.mutate(tmp_path, fault)


@pytest.mark.slow
def test_a_tree_whose_tests_pass_is_told_from_one_whose_tests_fail(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_it():\n    assert True\n", "utf-8")
    (tmp_path / "test_two.py").write_text("def test_it():\n    assert False\n", "utf-8")
    assert mutation.run_tests(tmp_path, ["test_one.py"]) == (False, "")
    assert mutation.run_tests(tmp_path, ["test_one.py", "test_two.py"]) == (
        True,
        "test_two.py::test_it",
    )
