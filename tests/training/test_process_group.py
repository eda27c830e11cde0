"""Ranks as real processes: what they add up, tell each other, and notice of each other's end."""

import time
from datetime import timedelta

import psutil
import pytest
import torch
import torch.distributed as dist

from sweeper.training.process_group import LostTouch, joined

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_every_rank_gets_the_same_bits_of_a_sum(count, size, fleets):
    answers = fleets(count).ask("add_up", size=size)

    assert [answer["in_place"] for answer in answers] == [True] * count
    assert [answer["values"] == answers[0]["values"] for answer in answers] == [True] * count


def test_a_sum_is_that_of_all_ranks(fleets):
    tensors = [torch.manual_seed(rank) and torch.randn(3, dtype=torch.float64) for rank in (0, 1)]

    assert fleets(2).ask("add_up", size=3, dtype="float64")[0]["values"] == sum(tensors).tolist()


@pytest.mark.parametrize("count", [2, 3])
def test_values_that_one_rank_has_and_the_others_fill_with_zeros_arrive_to_the_bit(count, fleets):
    values = [0.1, 1 / 3, 1e308, 5e-324, -2.5, float("inf"), 1e-30]

    assert fleets(count).ask("add_up_places", values=values) == [values] * count


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([False, False, False], False), ([False, False, True], True), ([True, False, False], True)],
)
def test_a_flag_on_any_rank_is_seen_by_all(flags, expected, fleets):
    assert fleets(3).ask("any_of", flags=flags) == [expected] * 3


@pytest.mark.parametrize("contents", [["", "00ff", "61" * 1000], ["", "", ""], ["00", "00", "01"]])
def test_bytes_of_any_length_are_gathered_by_rank(contents, fleets):
    assert fleets(3).ask("gather", contents=contents) == [contents] * 3


def test_nothing_listens_but_on_the_loopback_interface(fleets):
    fleet = fleets(2)
    fleet.ask("any_of", flags=[False, False])

    listening = [
        connection.laddr.ip
        for process in fleet.processes
        for connection in psutil.Process(process.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]

    assert set(listening) == {"127.0.0.1"}


def test_who_waits_for_a_rank_that_has_died_loses_touch_within_seconds(new_fleet):
    fleet = new_fleet(3)
    fleet.ask("any_of", flags=[False, False, False])
    began = time.monotonic()

    answers = fleet.answers("die", who=1)

    assert time.monotonic() - began < 10
    assert [answer and answer["error"] for answer in answers] == ["LostTouch", None, "LostTouch"]
    assert answers[2]["message"].startswith("rank 2 lost touch with the others: ")


def test_who_waits_in_vain_for_the_others_to_come_loses_touch(tmp_path):
    waiting = joined(
        tmp_path / "meeting", rank=0, count=2, device=CPU, timeout=timedelta(seconds=0.5)
    )

    with pytest.raises(LostTouch, match="rank 0 lost touch"):
        waiting.__enter__()


def test_a_group_that_has_parted_in_order_leaves_nothing_behind(tmp_path):
    with joined(tmp_path / "meeting", rank=0, count=1, device=CPU) as ranks:
        assert (ranks.rank, ranks.count) == (0, 1)
        assert dist.is_initialized()

    assert not dist.is_initialized()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
def test_on_a_gpu_tensors_of_the_host_are_added_up_in_place_too(tmp_path):
    with joined(tmp_path / "meeting", rank=0, count=1, device=torch.device("cuda", 0)) as ranks:
        tensor = torch.tensor([0.1, 1 / 3], dtype=torch.float64)

        assert ranks.sum(tensor) is tensor
        assert tensor.tolist() == [0.1, 1 / 3]
        assert ranks.gather(b"abc") == [b"abc"]
        assert ranks.any(flag=True)
