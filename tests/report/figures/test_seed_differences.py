"""Paired differences: exactly the comparison's numbers."""

from sweeper.report.figures.seed_differences import seed_differences


def test_the_rows_are_the_comparison_s_numbers(dossiers):
    comparison = dossiers["answered"].comparison
    rows = seed_differences(comparison).table.rows

    half = next(arm.difference for arm in comparison.arms if arm.arm == "half")
    mine = [row for row in rows if row["arm"] == "half"]
    assert [(row["seed"], row["difference"]) for row in mine[:-1]] == [
        (pair.seed, pair.difference) for pair in half.by_seed
    ]
    assert mine[-1] == {
        "arm": "half",
        "drawn": "mean",
        "seed": None,
        "difference": half.mean,
        "low_95": half.interval_95.low,
        "high_95": half.interval_95.high,
        "low_simultaneous": half.simultaneous.low,
        "high_simultaneous": half.simultaneous.high,
    }


def test_the_band_is_what_was_declared_to_matter_and_zero_is_marked(dossiers):
    (axes,) = seed_differences(dossiers["answered"].comparison).figure.axes

    (band,) = axes.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == (-0.005, 0.005)
    assert list(axes.lines[0].get_xdata()) == [0, 0]


def test_an_arm_with_a_broken_gate_has_no_difference(dossiers):
    rows = seed_differences(dossiers["extended"].comparison).table.rows

    assert {row["arm"] for row in rows} == {"half", "double", "x8"}


def test_a_single_seed_has_no_interval(dossiers):
    drawing = seed_differences(dossiers["young"].comparison)

    assert [row["low_95"] for row in drawing.table.rows] == [None, None]
    assert "interval" not in drawing.conclusion


def test_without_any_difference_there_is_no_figure(dossiers):
    assert seed_differences(dossiers["ruined"].comparison) is None
