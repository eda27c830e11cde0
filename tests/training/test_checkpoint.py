"""Checkpoints appear whole, and what is not what was written is named and passed over."""

import dataclasses
import errno
import hashlib
import json
import math
import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from waiting import within

from sweeper.records import CheckpointMade
from sweeper.training.checkpoint import (
    DamagedCheckpoint,
    checkpoint_folders,
    keep_newest,
    newest_valid,
    read_checkpoint,
    remove_checkpoint,
    write_checkpoint,
)
from sweeper.training.exposure import Exposure
from sweeper.training.snapshot import Snapshot

OWNER = {"cell": "double/2", "study": "rates"}
FILES = ("tensors.safetensors", "state.json", "complete.json")


def snapshot_after(window, **facts):
    """Returns a small state; the value of its only weight is the window."""
    exposure = dataclasses.asdict(Exposure(windows=window, target_tokens_read=10 * window))
    return Snapshot(
        tensors={
            "weights/a": torch.tensor([float(window), 0.1]),
            "optimizer/0/step": torch.ones(()),
        },
        facts={"exposure": exposure, "random": [{}], "device": "cpu"} | facts,
    )


@pytest.fixture
def root(tmp_path):
    return tmp_path / "checkpoints"


@pytest.fixture
def three(root):
    """Checkpoints after windows 2, 4 and 10."""
    for window in (2, 4, 10):
        write_checkpoint(root, snapshot_after(window), owner=OWNER)
    return root


# --- whole --------------------------------------------------------------------------------------


def test_a_checkpoint_comes_back_to_the_bit(root):
    """Remembered losses may be anything; -0.0 and a subnormal number are numbers too."""
    odd = torch.tensor([-0.0, 1e-45, math.inf, math.nan, 0.1])
    snapshot = snapshot_after(3, watch={"loss": math.nan, "norm": math.inf, "last": 0.1 + 0.2})
    snapshot = dataclasses.replace(snapshot, tensors={"weights/b": odd, **snapshot.tensors})
    write_checkpoint(root, snapshot, owner=OWNER)
    found = read_checkpoint(root / "00000003")
    assert found.snapshot.tensors.keys() == snapshot.tensors.keys()
    bits = found.snapshot.tensors["weights/b"].view(torch.int32)
    assert torch.equal(bits, odd.view(torch.int32))
    assert found.snapshot.tensors["optimizer/0/step"].shape == ()
    as_text = [
        json.dumps(facts, sort_keys=True) for facts in (found.snapshot.facts, snapshot.facts)
    ]
    assert as_text[0] == as_text[1]
    assert found.owner == OWNER
    assert (found.window, found.target_tokens_read) == (3, 30)


def test_the_mark_holds_the_digest_of_every_file_and_the_record_that_of_the_mark(root):
    made = write_checkpoint(root, snapshot_after(3), owner=OWNER)
    folder = root / "00000003"
    content = {name: (folder / name).read_bytes() for name in FILES}
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert json.loads(content["complete.json"])["sha256"] == {
        name: hashlib.sha256(content[name]).hexdigest() for name in FILES[:2]
    }
    assert made == CheckpointMade(
        window=3,
        path="checkpoints/00000003",
        sha256=hashlib.sha256(content["complete.json"]).hexdigest(),
        size_bytes=len(content["tensors.safetensors"]) + len(content["state.json"]),
    )
    assert read_checkpoint(folder).sha256 == made.sha256


def test_nothing_but_the_folder_is_left(root):
    write_checkpoint(root, snapshot_after(3), owner=OWNER)
    assert [path.name for path in root.iterdir()] == ["00000003"]


def test_a_checkpoint_of_the_same_window_takes_the_place_of_the_one_before(root):
    write_checkpoint(root, snapshot_after(3, device="cuda"), owner=OWNER)
    write_checkpoint(root, snapshot_after(3), owner=OWNER)
    assert read_checkpoint(root / "00000003").snapshot.device_type == "cpu"


def test_a_write_that_fails_between_its_files_leaves_nothing_and_spares_the_one_before(root):
    """The tensors are written before the facts, and these are nothing that JSON knows."""
    write_checkpoint(root, snapshot_after(3), owner=OWNER)
    with pytest.raises(TypeError):
        write_checkpoint(root, snapshot_after(4, watch=object()), owner=OWNER)
    assert [path.name for path in root.iterdir()] == ["00000003"]
    assert read_checkpoint(root / "00000003").window == 3


def test_a_write_that_fails_before_its_mark_leaves_nothing(root, monkeypatch):
    def full(_file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sweeper.training.checkpoint._file_digest", full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(root, snapshot_after(3), owner=OWNER)
    assert list(root.iterdir()) == []


def test_what_a_kill_left_is_cleared_by_the_next_write_of_that_window(root):
    partial = root / "00000003.partial"
    partial.mkdir(parents=True)
    (partial / "tensors.safetensors").write_bytes(b"half")
    write_checkpoint(root, snapshot_after(3), owner=OWNER)
    assert [path.name for path in root.iterdir()] == ["00000003"]


_WRITE_A_BIG_ONE = """
import sys, pathlib, torch
from sweeper.training.checkpoint import write_checkpoint
from sweeper.training.snapshot import Snapshot

def write(window, values):
    facts = {"exposure": {"windows": window}, "random": [{}], "device": "cpu"}
    snapshot = Snapshot(tensors={"weights/a": torch.ones(values)}, facts=facts)
    write_checkpoint(pathlib.Path(sys.argv[1]), snapshot, owner={})

write(1, 10)
write(2, 50_000_000)
"""


@pytest.mark.slow
def test_a_kill_while_a_checkpoint_is_written_leaves_none_that_seems_whole(root):
    """SimpleTuner #2353: the half that a kill left was loaded. 200 MB take a while to write."""
    argv = [sys.executable, "-c", _WRITE_A_BIG_ONE, str(root)]
    with subprocess.Popen(argv) as writing:
        began = within(120, lambda: (root / "00000002.partial").exists() or writing.poll())
        assert began is True, "it ended before"
        writing.kill()
    found, complaints = newest_valid(root)
    assert (found.window, complaints) == (1, [])
    assert sorted(path.name for path in root.iterdir()) == ["00000001", "00000002.partial"]


# --- kept ---------------------------------------------------------------------------------------


def test_checkpoints_are_listed_from_the_newest(three):
    (three / "00000012.partial").mkdir()
    (three / "notes").mkdir()
    names = [folder.name for folder in checkpoint_folders(three)]
    assert names == ["00000010", "00000004", "00000002"]


def test_without_a_folder_there_are_none(root):
    assert checkpoint_folders(root) == []
    assert newest_valid(root) == (None, [])


@pytest.mark.parametrize(
    ("count", "kept"), [(1, ["00000010"]), (2, ["00000010", "00000004"]), (5, None)]
)
def test_the_newest_are_kept(count, kept, three):
    before = [folder.name for folder in checkpoint_folders(three)]
    keep_newest(three, count)
    assert [folder.name for folder in checkpoint_folders(three)] == (kept or before)


def test_half_a_removal_leaves_nothing_that_seems_whole(three, monkeypatch):
    def die(*_arguments, **_names):
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", die)
    with pytest.raises(KeyboardInterrupt):
        remove_checkpoint(three / "00000010")
    found, complaints = newest_valid(three)
    assert found.window == 4
    assert complaints == [
        f"checkpoint {three / '00000010'} is passed over: it has no mark that it is complete"
    ]


# --- damaged ------------------------------------------------------------------------------------


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def remove(file):
    file.unlink()


def empty(file):
    file.write_bytes(b"")


def as_a_folder(file):
    file.unlink()
    file.mkdir()


WRITTEN = "is not what was written (SHA-256 differs)"


@pytest.mark.parametrize(
    ("name", "harm", "complaint"),
    [
        ("tensors.safetensors", flip, f"tensors.safetensors {WRITTEN}"),
        ("tensors.safetensors", cut, f"tensors.safetensors {WRITTEN}"),
        ("tensors.safetensors", empty, f"tensors.safetensors {WRITTEN}"),
        ("tensors.safetensors", remove, "tensors.safetensors is missing"),
        ("tensors.safetensors", as_a_folder, "tensors.safetensors cannot be read: Is a directory"),
        ("state.json", flip, f"state.json {WRITTEN}"),
        ("state.json", cut, f"state.json {WRITTEN}"),
        ("state.json", remove, "state.json is missing"),
        ("complete.json", cut, "complete.json is not readable: "),
        ("complete.json", empty, "complete.json is not readable: "),
        ("complete.json", remove, "it has no mark that it is complete"),
        ("complete.json", as_a_folder, "complete.json cannot be read: Is a directory"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(name, harm, complaint, three):
    harm(three / "00000010" / name)
    found, (sentence,) = newest_valid(three)
    assert found.window == 4
    assert found.snapshot.tensors["weights/a"][0] == 4.0
    assert sentence.startswith(f"checkpoint {three / '00000010'} is passed over: {complaint}")


def test_each_damaged_checkpoint_is_named_and_none_may_be_left(three):
    flip(three / "00000002" / "state.json")
    cut(three / "00000004" / "tensors.safetensors")
    remove(three / "00000010" / "complete.json")
    found, complaints = newest_valid(three)
    assert found is None
    assert [sentence.split(" is passed over: ")[0] for sentence in complaints] == [
        f"checkpoint {three / name}" for name in ("00000010", "00000004", "00000002")
    ]


def test_another_format_is_not_read(three):
    mark = three / "00000010" / "complete.json"
    mark.write_text(json.dumps(json.loads(mark.read_text("utf-8")) | {"format": 2}), "utf-8")
    with pytest.raises(DamagedCheckpoint, match="its format is 2; this version reads 1"):
        read_checkpoint(mark.parent)


@pytest.mark.parametrize(
    "mark",
    [
        "[]",
        "{}",
        "null",
        '{"format": 1, "owner": {}, "sha256": []}',
        '{"format": 1, "owner": [], "sha256": {}}',
        '{"format": 1, "owner": {}, "sha256": "tensors"}',
    ],
)
def test_a_mark_that_says_something_else_is_no_mark(mark, three):
    folder = three / "00000010"
    (folder / "complete.json").write_text(mark, "utf-8")
    with pytest.raises(DamagedCheckpoint):
        read_checkpoint(folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A checkpoint's folder, and what its files hold."""
    root = tmp_path_factory.mktemp("written")
    write_checkpoint(root, snapshot_after(3), owner=OWNER)
    return root / "00000003", {name: (root / "00000003" / name).read_bytes() for name in FILES}


@given(name=st.sampled_from(FILES), where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_single_flipped_bit_is_found_wherever_it_is(name, where, bit, written):
    """Only within the mark may one stay unseen, in a blank, or in what it says of the owner, whom
    the trial compares with itself: the state is then still what was written."""
    folder, content = written
    harmed = bytearray(content[name])
    harmed[int(where * len(harmed))] ^= 1 << bit
    (folder / name).write_bytes(harmed)
    try:
        found = read_checkpoint(folder)
    except DamagedCheckpoint:
        return
    finally:
        (folder / name).write_bytes(content[name])
    assert name == "complete.json"
    assert torch.equal(found.snapshot.tensors["weights/a"], torch.tensor([3.0, 0.1]))
