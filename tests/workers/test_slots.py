from __future__ import annotations

import pytest

from sweeper.errors import PlanError
from sweeper.study.run_options import RunOptions
from sweeper.workers.gpus import Gpu
from sweeper.workers.slots import (
    Machine,
    Slot,
    find_slots,
    this_machine,
    trial_memory_bytes,
    unused_devices,
)

GIBIBYTE = 1 << 30


def machine(**changes):
    """Four cores, plenty of memory, no GPU, nothing restricted."""
    plain = {
        "visible_devices": None,
        "gpus": (),
        "cores": 4,
        "free_memory_bytes": 64 * GIBIBYTE,
    }
    return Machine(**plain | changes)


def gpus(*names, busy=()):
    return tuple(Gpu(uuid=name, busy=name in busy) for name in names)


def devices(run, there):
    return [slot.device for slot in find_slots(run, there, memory_bytes_per_rank=GIBIBYTE)]


def test_without_a_gpu_there_is_a_slot_per_core_with_one_thread_each():
    slots = find_slots(RunOptions(), machine(cores=3), memory_bytes_per_rank=GIBIBYTE)

    assert slots == (
        Slot(name="cpu 1", device=None, threads=1),
        Slot(name="cpu 2", device=None, threads=1),
        Slot(name="cpu 3", device=None, threads=1),
    )


def test_memory_bounds_the_slots_on_cores():
    there = machine(cores=8, free_memory_bytes=5 * GIBIBYTE)

    assert len(find_slots(RunOptions(), there, memory_bytes_per_rank=2 * GIBIBYTE)) == 2


def test_there_is_a_slot_even_where_memory_looks_short():
    assert devices(RunOptions(), machine(free_memory_bytes=0)) == [None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("GPU-0a1b", ["GPU-0a1b"]),
        ("MIG-0a1b", ["MIG-0a1b"]),
        ("2,3", ["2", "3"]),
        ("0, 1", ["0", "1"]),
        ("10", ["10"]),
        ("GPU-0a1b,MIG-2c3d", ["GPU-0a1b", "MIG-2c3d"]),
    ],
)
def test_visible_devices_are_passed_on_one_per_slot_unchanged(value, expected):
    """The parent's restriction holds whatever the driver lists."""
    there = machine(visible_devices=value, gpus=gpus("GPU-ffff"))

    assert devices(RunOptions(), there) == expected


@pytest.mark.parametrize("value", ["", " ", "-1"])
def test_an_empty_restriction_means_no_gpu(value):
    there = machine(visible_devices=value, gpus=gpus("GPU-ffff"), cores=2)

    assert devices(RunOptions(), there) == [None, None]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("2,2", "device '2' is named twice"),
        ("0, 1,1", "device '1' is named twice"),
        ("0,,1", "an entry is no device"),
        ("0,-1", "an entry is no device"),
    ],
)
def test_a_restriction_that_is_no_list_of_devices_is_refused(value, what):
    with pytest.raises(PlanError, match=what) as caught:
        find_slots(RunOptions(), machine(visible_devices=value), memory_bytes_per_rank=GIBIBYTE)

    assert caught.value.faults[0].where == "CUDA_VISIBLE_DEVICES"
    assert caught.value.faults[0].got == value


def test_unrestricted_gpus_are_taken_by_uuid():
    there = machine(gpus=gpus("GPU-a", "GPU-b"))

    assert devices(RunOptions(), there) == ["GPU-a", "GPU-b"]


def test_gpus_that_others_use_are_left_to_them():
    there = machine(gpus=gpus("GPU-a", "GPU-b", busy=["GPU-a"]))

    assert devices(RunOptions(), there) == ["GPU-b"]
    assert devices(RunOptions(use_busy=True), there) == ["GPU-a", "GPU-b"]


def test_where_every_gpu_is_busy_the_cpu_does_not_silently_take_over():
    there = machine(gpus=gpus("GPU-a", busy=["GPU-a"]))

    with pytest.raises(PlanError, match="every GPU of this host is used by other processes"):
        find_slots(RunOptions(), there, memory_bytes_per_rank=GIBIBYTE)


def test_a_list_of_slots_overrides_what_is_there():
    there = machine(visible_devices="0", gpus=gpus("GPU-a"))

    assert devices(RunOptions(slots=("GPU-b", "7")), there) == ["GPU-b", "7"]


def test_cpu_in_the_list_forces_a_slot_without_gpu_at_each_mention():
    there = machine(gpus=gpus("GPU-a"))

    assert devices(RunOptions(slots=("cpu",)), there) == [None]
    assert devices(RunOptions(slots=("cpu", "cpu")), there) == [None, None]
    assert devices(RunOptions(slots=("cpu", "3")), there) == ["3", None]


@pytest.mark.parametrize("listed", [("3", "3"), ("GPU-a", "cpu", "GPU-a"), ("2,3",), ("",), ()])
def test_a_list_that_names_a_device_twice_or_none_is_refused(listed):
    with pytest.raises(PlanError, match=r"^run\.slots: "):
        find_slots(RunOptions(slots=listed), machine(), memory_bytes_per_rank=GIBIBYTE)


@pytest.mark.parametrize(
    ("listed", "order"),
    [(("1", "GPU-b"), "PCI_BUS_ID"), (("GPU-b", "GPU-b2"), None)],
    ids=["number and identifier", "short and long"],
)
def test_one_device_under_two_names_is_refused_where_the_driver_can_tell(listed, order):
    there = machine(gpus=gpus("GPU-a1", "GPU-b2"), device_order=order)

    with pytest.raises(PlanError, match="are the same device, GPU-b2"):
        find_slots(RunOptions(slots=listed), there, memory_bytes_per_rank=GIBIBYTE)


def test_a_gpu_without_the_drivers_library_is_no_reason_to_use_the_cpu():
    there = machine(unlisted_device="/dev/nvidia0")

    with pytest.raises(PlanError, match=r"got auto, and /dev/nvidia0.*slots: \['0'\]"):
        find_slots(RunOptions(), there, memory_bytes_per_rank=GIBIBYTE)
    assert devices(RunOptions(slots=("0",)), there) == ["0"]
    assert devices(RunOptions(slots=("cpu",)), there) == [None]


def test_devices_that_the_user_has_named_need_no_library():
    there = machine(unlisted_device="/dev/nvidia0", visible_devices="0")

    assert devices(RunOptions(), there) == ["0"]


def test_several_trials_share_a_device_only_when_asked():
    slots = find_slots(
        RunOptions(trials_per_device=2),
        machine(visible_devices="4,5"),
        memory_bytes_per_rank=GIBIBYTE,
    )

    assert [(slot.name, slot.device) for slot in slots] == [
        ("gpu 4 1", "4"),
        ("gpu 5 1", "5"),
        ("gpu 4 2", "4"),
        ("gpu 5 2", "5"),
    ]


# --- several devices per trial ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "names", "groups", "unused"),
    [
        (2, "4,5,6,7", ["4,5", "6,7"], ()),
        (2, "GPU-a,GPU-b,GPU-c", ["GPU-a,GPU-b"], ("GPU-c",)),
        (3, "0,1,2,3,4", ["0,1,2"], ("3", "4")),
        (1, "0,1", ["0", "1"], ()),
    ],
)
def test_a_trial_of_several_ranks_gets_as_many_devices_in_a_row(count, names, groups, unused):
    run, there = RunOptions(devices_per_trial=count), machine(visible_devices=names)

    assert devices(run, there) == groups
    assert unused_devices(run, there) == unused


def test_groups_are_made_of_what_is_listed_and_of_what_the_driver_lists_alike():
    there = machine(gpus=gpus("GPU-a", "GPU-b", "GPU-c", busy=["GPU-b"]))

    assert devices(RunOptions(devices_per_trial=2), there) == ["GPU-a,GPU-c"]
    assert devices(RunOptions(devices_per_trial=2, slots=("7", "cpu", "8")), there) == ["7,8", None]


@pytest.mark.parametrize("slots", ["auto", ("0", "cpu")])
def test_fewer_devices_than_a_trial_takes_are_refused(slots):
    run, there = RunOptions(devices_per_trial=2, slots=slots), machine(visible_devices="0")

    with pytest.raises(PlanError, match=r"^run\.devices_per_trial: .* \(got 2 with 0\)"):
        find_slots(run, there, memory_bytes_per_rank=GIBIBYTE)


def test_several_trials_that_share_devices_share_all_of_a_group():
    slots = find_slots(
        RunOptions(devices_per_trial=2, trials_per_device=2),
        machine(visible_devices="4,5"),
        memory_bytes_per_rank=GIBIBYTE,
    )

    assert [(slot.name, slot.device) for slot in slots] == [
        ("gpu 4,5 1", "4,5"),
        ("gpu 4,5 2", "4,5"),
    ]


@pytest.mark.parametrize(("cores", "count", "slots"), [(4, 2, 2), (5, 2, 2), (3, 3, 1)])
def test_on_cores_a_slot_takes_one_for_each_rank(cores, count, slots):
    found = find_slots(
        RunOptions(devices_per_trial=count),
        machine(cores=cores),
        memory_bytes_per_rank=GIBIBYTE,
    )

    assert [slot.name for slot in found] == [f"cpu {place}" for place in range(1, slots + 1)]
    assert {slot.threads for slot in found} == {1}


def test_each_rank_takes_its_memory():
    """Of 5 GiB, two trials of two ranks of 1 GiB each; nine cores would hold four."""
    there = machine(cores=9, free_memory_bytes=5 * GIBIBYTE)

    assert devices(RunOptions(devices_per_trial=2), there) == [None, None]


def test_ranks_share_cores_only_when_a_slot_is_asked_for():
    run, there = RunOptions(devices_per_trial=3), machine(cores=2)

    with pytest.raises(PlanError, match=r"got 3 with 2 cores\)\. .*`slots: \[cpu\]`"):
        find_slots(run, there, memory_bytes_per_rank=GIBIBYTE)
    assert devices(RunOptions(devices_per_trial=3, slots=("cpu",)), there) == [None]


def test_this_machine_has_cores_memory_and_the_given_restriction():
    there = this_machine({"CUDA_VISIBLE_DEVICES": "MIG-x"})

    assert there.visible_devices == "MIG-x"
    assert there.cores >= 1
    assert there.free_memory_bytes > 0


def test_a_trial_is_taken_to_need_its_weights_twice_and_four_copies_of_what_it_trains():
    """512 MiB + 4 bytes x (2 x 1,000,000 + 4 x 100,000)."""
    need = trial_memory_bytes(parameters=1_000_000, trainable_parameters=100_000)

    assert need == 536_870_912 + 9_600_000
