"""What device errors do to a slot and to the cells that met them."""

import pytest

from sweeper.records import Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.store.store import StudyStore
from sweeper.sweep.quarantine import STAND_BACK_SECONDS, DeviceFaults
from sweeper.workers.slots import Slot

FAULT = Outcome(reason=Reason.DEVICE_ERROR, detail="CUDA error: unspecified launch failure")
GOOD = Outcome(reason=Reason.BUDGET_REACHED, detail="read it all")
KILLED = Outcome(reason=Reason.KILLED, detail="killed")


def after(*outcomes, allowed=2):
    faults = DeviceFaults(allowed=allowed)
    said = [faults.ended("gpu 0", "half/0", outcome) for outcome in outcomes]
    return faults, said


@pytest.mark.parametrize(
    ("outcomes", "is_set_aside"),
    [
        ([], False),
        ([FAULT], False),
        ([FAULT, FAULT], True),
        ([FAULT, GOOD, FAULT], False),
        ([FAULT, KILLED, FAULT], False),
        ([GOOD, FAULT, FAULT], True),
    ],
)
def test_a_slot_is_set_aside_after_so_many_device_errors_in_a_row(outcomes, is_set_aside):
    faults, _ = after(*outcomes)

    assert faults.is_set_aside("gpu 0") is is_set_aside
    assert not faults.is_set_aside("gpu 1")


def test_it_is_told_once_with_the_last_error():
    _, said = after(FAULT, FAULT)

    assert said == [
        None,
        "slot gpu 0 is set aside after 2 device errors in a row, the last: " + FAULT.detail,
    ]


def test_one_error_may_be_enough():
    _, (said,) = after(FAULT, allowed=1)

    assert said.startswith("slot gpu 0 is set aside after 1 device error, the last: ")


SHARED = {"gpu 0 1": "0", "gpu 1 1": "1", "gpu 0 2": "0", "gpu 1 2": "1"}


def test_slots_on_one_device_are_set_aside_together():
    faults = DeviceFaults(allowed=2, devices=SHARED)
    faults.ended("gpu 0 1", "half/0", FAULT)
    said = faults.ended("gpu 0 2", "baseline/0", FAULT)

    assert said == (
        f"slot gpu 0 2 is set aside after 2 device errors in a row, the last: {FAULT.detail}; "
        "so is gpu 0 1"
    )
    assert [faults.is_set_aside(slot) for slot in SHARED] == [True, False, True, False]


def test_memory_that_did_not_come_back_is_an_error_of_the_device_and_none_of_the_trial():
    left = Outcome(reason=GOOD.reason, detail="", evidence={"device_memory_left": "500 bytes"})
    faults, (said,) = after(left, allowed=1)

    assert said == "slot gpu 0 is set aside after 1 device error, the last: 500 bytes"
    assert faults.is_set_aside("gpu 0")


class Clock:
    """Seconds that the test sets."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def waiting(founded):
    """The store of a study in which `half/0` waits."""
    with StudyStore.open(founded.url) as store:
        owner = Owner(worker="local", host="here", pid=1, started_at="1.0")
        claim = store.claim(owner, "cpu 0", cell="baseline/0")
        store.finish(claim, GOOD, max_resumes=0)
        yield store


@pytest.mark.parametrize(
    ("others", "busy", "waited", "left"),
    [
        ({"gpu 1"}, True, 3600.0, {"half/0"}),
        ({"gpu 1"}, False, 0.0, {"half/0"}),
        ({"gpu 1"}, False, STAND_BACK_SECONDS, set()),
        (set(), False, 0.0, set()),
    ],
    ids=["the other is busy", "the other may take it", "it did not", "no other"],
)
def test_a_cell_is_left_to_another_slot_where_there_is_one(waiting, others, busy, waited, left):
    clock = Clock()
    faults = DeviceFaults(allowed=3, clock=clock)
    faults.ended("gpu 0", "half/0", FAULT)
    clock.now += waited

    assert faults.left_to_others("gpu 0", waiting, others_here=others, others_busy=busy) == left


@pytest.mark.parametrize(("other", "left"), [("gpu 0 2", set()), ("gpu 1 1", {"half/0"})])
def test_a_cell_is_left_to_another_device_not_to_another_slot_on_the_same(waiting, other, left):
    faults = DeviceFaults(allowed=3, devices=SHARED)
    faults.ended("gpu 0 1", "half/0", FAULT)

    found = faults.left_to_others("gpu 0 1", waiting, others_here={other}, others_busy=True)

    assert found == left


def test_a_cell_that_every_slot_has_lost_is_left_to_nobody(waiting):
    faults = DeviceFaults(allowed=3)
    faults.ended("gpu 0", "half/0", FAULT)
    faults.ended("gpu 1", "half/0", FAULT)

    left = faults.left_to_others("gpu 0", waiting, others_here={"gpu 1"}, others_busy=True)

    assert left == frozenset()


def test_a_cell_that_has_ended_is_left_to_nobody(waiting):
    faults = DeviceFaults(allowed=3)
    faults.ended("gpu 0", "baseline/0", FAULT)

    left = faults.left_to_others("gpu 0", waiting, others_here={"gpu 1"}, others_busy=True)

    assert left == frozenset()


GOOD_AND_BAD = (
    Slot(name="bad", device=None, threads=2),
    Slot(name="good", device=None, threads=1),
)


@pytest.fixture
def four_cells(tmp_path, small):
    """Every trial meets a device error in the bad slot; two such errors set it aside."""
    made = small(tmp_path, seeds="[0, 1]")
    text = made.file.path.read_text()
    made.file.path.write_text(text.replace("max_resumes: 1", "max_resumes: 1, quarantine_after: 2"))
    again = small(tmp_path)
    cells = ("baseline/0", "half/0", "baseline/1", "half/1")
    again.behave({cell: ["device_error_with_two_threads"] for cell in cells})
    return again


def slots_of(study):
    with StudyStore.read(study.url) as store:
        return [(row["slot"], row["reason"]) for row in store.attempts()]


@pytest.mark.slow
def test_the_cells_of_a_faulty_slot_move_on_and_all_of_them_complete(four_cells, recorder):
    """Each is resumed once at most, so none may meet the bad slot a second time."""
    observer = recorder()

    end = four_cells.run(slots=GOOD_AND_BAD, observer=observer)

    assert end.counts == {"completed": 4}
    attempts = slots_of(four_cells)
    assert sorted(attempts) == [("bad", "device_error")] * 2 + [("good", "budget_reached")] * 4
    assert [m for m in observer.messages if "set aside" in m] == [
        "slot bad is set aside after 2 device errors in a row, the last: " + FAULT.detail
    ]


@pytest.mark.slow
def test_a_study_whose_only_slot_is_set_aside_ends_with_cells_that_wait(four_cells):
    """The cell had two errors, which is one more than it may be resumed after."""
    end = four_cells.run(slots=GOOD_AND_BAD[:1])

    assert end.counts == {"lost": 1, "waiting": 3}
    assert end.status == 3


@pytest.mark.slow
def test_the_next_run_goes_on_with_what_waits(four_cells):
    four_cells.run(slots=GOOD_AND_BAD[:1])

    end = four_cells.run(slots=GOOD_AND_BAD[1:])

    assert end.counts == {"lost": 1, "completed": 3}
