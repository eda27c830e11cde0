"""SVG for a file and for the page; arms told apart without colour."""

import re

import pytest

from sweeper.report.figures.drawing import (
    ARMS,
    arm_styles,
    arms_in_order,
    svg_element,
    svg_text,
    thousands,
)
from sweeper.report.figures.seed_differences import seed_differences


@pytest.fixture
def comparison(dossiers):
    return dossiers["extended"].comparison


def test_arms_stand_in_the_order_of_the_rate_and_the_baseline_looks_the_same_everywhere(
    comparison, dossiers
):
    styles = arm_styles(comparison)

    assert arms_in_order(comparison) == ["half", "baseline", "double", "x4", "x8"]
    assert styles["baseline"] == arm_styles(dossiers["ruined"].comparison)["baseline"]
    assert styles["baseline"].colour == ARMS[0]
    assert len({style.marker for style in styles.values()}) == len(styles)
    assert len({style.dashes for style in styles.values()}) == len(styles)
    assert styles["x4"].label == "x4 (0.0008)"


def test_the_svg_of_a_file_is_the_same_for_the_same_rows_and_names_no_time(comparison):
    first, second = svg_text(seed_differences(comparison)), svg_text(seed_differences(comparison))

    assert first == second
    assert "<metadata>" not in first
    assert "dc:date" not in first
    assert "<text " in first, "text stays text"
    assert "var(--" not in first


def test_the_svg_of_the_page_has_its_colours_and_no_id_of_another_drawing(comparison):
    element = svg_element("mine", svg_text(seed_differences(comparison)))

    assert element.startswith('<svg class="drawing" role="img" aria-labelledby="mine-title"')
    assert set(re.findall(r"var\(--([\w-]+)\)", element)) >= {"paper", "ink", "grid", "arm-1"}
    assert re.findall(r"#[0-9a-f]{6}\b", element) == []
    assert all(name.startswith("mine-") for name in re.findall(r'\bid="([^"]+)"', element))
    assert all(
        name.startswith("mine-") for name in re.findall(r'(?:href="|url\()#([^")]+)', element)
    )
    assert "<style" not in element
    assert "http" not in element


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (500, "500"), (20_000, "20k"), (1_500_000, "1.5M"), (2e9, "2G")]
)
def test_counts_on_an_axis_are_short(value, text):
    assert thousands(value) == text
