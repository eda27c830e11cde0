"""Peak memory: both kinds, in the unit that the axis says."""

import pytest

from sweeper.report.figures.memory import memory

TRIALS = [
    {"trial": "half/0", "peak_memory_bytes": 400 * 2**20},
    {"trial": "half/1", "peak_memory_bytes": 430 * 2**20},
    {"trial": "half/2", "peak_memory_bytes": None},
]
UPDATES = [
    {"trial": "half/0", "peak_memory_bytes": 2**20},
    {"trial": "half/0", "peak_memory_bytes": 3 * 2**20},
    {"trial": "half/1", "peak_memory_bytes": None},
]


def test_it_has_what_was_sampled_and_the_largest_of_what_was_reported():
    drawing = memory(TRIALS, UPDATES, is_rate=True)

    assert [list(row.values()) for row in drawing.table.rows] == [
        ["half/0", 400 * 2**20, 3 * 2**20],
        ["half/1", 430 * 2**20, None],
    ]
    sampled, reported = drawing.figure.axes[0].lines
    assert list(sampled.get_xdata()) == [400, 430]
    assert list(reported.get_xdata()) == pytest.approx([3])
    assert drawing.conclusion.startswith(
        "Peak memory, sampled over a trial's processes: 400 to 430"
    )


def test_only_a_rate_is_said_to_take_no_memory():
    assert "A rate takes no memory" in memory(TRIALS, UPDATES, is_rate=True).conclusion
    assert "rate" not in memory(TRIALS, UPDATES, is_rate=False).conclusion
    assert memory(TRIALS[2:], [], is_rate=True) is None
