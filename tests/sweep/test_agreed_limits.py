"""Which limits may be agreed on after trials have run."""

import pytest

from sweeper.errors import StudyConflict, StudyFileError
from sweeper.study.run_options import Limits
from sweeper.sweep.agreed_limits import raised_limits

AGREED = Limits(wall_clock="90m", disk="1GiB")


@pytest.mark.parametrize("wanted", [{"wall_clock": "2h"}, {"disk": "1025MiB", "hang": "11m"}])
def test_a_higher_limit_is_taken_whatever_its_unit(wanted):
    assert raised_limits(AGREED, wanted) == wanted


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"wall_clock": "1.5h"}, "more than 90m"),
        ({"disk": "1023MiB"}, "more than 1GiB"),
        ({"host_memory": "64GiB"}, "no limit, as agreed"),
    ],
)
def test_what_is_no_raise_is_refused(wanted, expected):
    with pytest.raises(StudyConflict) as refused:
        raised_limits(AGREED, wanted)

    assert refused.value.faults[0].expected == expected


def test_a_full_disk_without_a_limit_on_it_is_no_matter_of_limits():
    with pytest.raises(StudyConflict) as refused:
        raised_limits(Limits(), {"disk": "8GiB", "wall_clock": "4h"})

    assert [fault.hint for fault in refused.value.faults] == [
        "Where a full disk ended a trial, make room, then `sweeper retry STUDY TRIAL`",
        None,
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"disk": "4h"}, "a size above zero with its unit: 512MiB or 16GiB"),
        ({"host_memory": "16GB"}, "a size above zero with its unit: 512MiB or 16GiB"),
        ({"device_memory": "80"}, "a size above zero with its unit: 512MiB or 16GiB"),
        ({"wall_clock": "4 hours"}, "a duration above zero with its unit: 90s, 10m, 2h or 1d"),
        ({"hang": "5GiB"}, "a duration above zero with its unit: 90s, 10m, 2h or 1d"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_the_limit_s_own_kind(wanted, expected):
    with pytest.raises(StudyFileError) as refused:
        raised_limits(AGREED, wanted)

    assert refused.value.faults[0].expected == expected


def test_names_and_values_that_are_none_are_all_told():
    with pytest.raises(StudyFileError) as refused:
        raised_limits(AGREED, {"wall_clok": "4h", "disk": "4h"})

    name, value = refused.value.faults
    assert (name.where, name.hint) == ("run.limits.wall_clok", "Did you mean wall_clock?")
    assert (value.where, value.got) == ("run.limits.disk", "4h")
