"""Norms and clipping over stretches of windows, worked by hand."""

from sweeper.report.figures.gradient_norms import MOST_STRETCHES, gradient_norms


def window(number, **changes):
    usual = {
        "trial": "half/0", "arm": "half", "target_tokens_read": 10 * number,
        "gradient_norm": float(number), "clipped": number % 2 == 0, "ran": True,
    }  # fmt: skip
    return usual | changes


def test_a_stretch_has_the_median_norm_and_the_share_clipped(dossiers):
    rows = [window(number) for number in range(1, 3 * MOST_STRETCHES + 1)]

    drawing = gradient_norms(rows, dossiers["answered"].comparison, clip_norm=2.0)

    first, second, *_, last = drawing.table.rows
    assert len(drawing.table.rows) == MOST_STRETCHES
    assert list(first.values()) == ["half/0", 30, 3, 2.0, 1 / 3, 0]
    assert list(second.values()) == ["half/0", 60, 3, 5.0, 2 / 3, 0]
    assert last["target_tokens_read"] == 900
    assert drawing.conclusion == (
        "Clipped at a norm of 2: half 45 of 90 updates. No window was skipped."
    )


def test_windows_without_an_update_are_ticks_and_no_norms(dossiers):
    rows = [
        window(1),
        window(2, ran=False, clipped=False, gradient_norm=None),
        window(3, ran=False, clipped=False, gradient_norm=float("inf")),
    ]

    drawing = gradient_norms(rows, dossiers["answered"].comparison, clip_norm=None)

    assert [row["gradient_norm"] for row in drawing.table.rows] == [1.0, None, None]
    assert [row["clipped_share"] for row in drawing.table.rows] == [0.0, None, None]
    assert list(drawing.figure.axes[2].lines[0].get_xdata()) == [20, 30]
    assert drawing.conclusion.endswith("Windows without an update: half 2.")


def test_the_repeat_of_the_baseline_is_left_out(dossiers):
    rows = [window(1, trial="baseline/0~repeat", arm="baseline~repeat")]

    assert gradient_norms(rows, dossiers["answered"].comparison, clip_norm=1.0) is None
