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


def test_names_and_values_that_are_none_are_all_told():
    with pytest.raises(StudyFileError) as refused:
        raised_limits(AGREED, {"wall_clok": "4h", "disk": "4h"})

    name, value = refused.value.faults
    assert (name.where, name.hint) == ("run.limits.wall_clok", "Did you mean wall_clock?")
    assert (value.where, value.got) == ("run.limits.disk", "4h")
