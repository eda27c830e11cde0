"""`import sweeper`: the tables and the comparison, loaded when they are asked for."""

import importlib
import importlib.resources

import pytest

import sweeper


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("trials", "sweeper.report.tables"),
        ("updates", "sweeper.report.tables"),
        ("evaluations", "sweeper.report.tables"),
        ("attempts", "sweeper.report.tables"),
        ("arms", "sweeper.report.arm_tables"),
        ("differences", "sweeper.report.arm_tables"),
        ("exposure", "sweeper.report.run_tables"),
        ("stability", "sweeper.report.run_tables"),
        ("cost", "sweeper.report.run_tables"),
        ("metrics", "sweeper.report.run_tables"),
        ("compare", "sweeper.report.comparison"),
        ("record_losses", "sweeper.report.record_losses"),
    ],
)
def test_a_public_function_is_the_report_s_own(name, module):
    assert getattr(sweeper, name) is getattr(importlib.import_module(module), name)


def test_what_is_public_is_listed():
    names = ["arms", "attempts", "compare", "cost", "differences", "evaluations", "exposure"]
    names += ["metrics", "record_losses", "stability", "trials", "updates"]

    assert sweeper.__all__ == names
    assert set(sweeper.__all__) <= set(dir(sweeper))


def test_any_other_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'sweeper' has no attribute 'trails'"):
        sweeper.trails  # noqa: B018


def test_the_package_says_that_it_is_typed():
    assert (importlib.resources.files("sweeper") / "py.typed").is_file()
