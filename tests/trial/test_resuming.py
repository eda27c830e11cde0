"""An attempt goes on from the newest valid checkpoint of those before it, or says why not."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass

import pytest

from sweeper.errors import ModelError
from sweeper.records import (
    Artifact,
    CheckpointMade,
    Evaluation,
    Notice,
    Reason,
    Resumed,
    Started,
    Update,
    decode,
)
from sweeper.study.run_options import CheckpointEvery, CheckpointOptions
from sweeper.training.checkpoint import read_checkpoint, write_checkpoint
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.resuming import find_resumption, owner_of

pytestmark = pytest.mark.usefixtures("restored_torch")

EVERY_THIRD = CheckpointOptions(every=CheckpointEvery(windows=3), keep=9)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt that has ended."""

    folder: AttemptFolder
    records: list

    def of(self, kind):
        return [record for record in self.records if isinstance(record, kind)]

    @property
    def computed(self):
        """Windows and evaluations as text that tells every bit apart; nothing timed."""
        return [
            repr(dataclasses.replace(r, seconds=0.0, peak_memory_bytes=0))
            if isinstance(r, Update)
            else repr(dataclasses.replace(r, seconds=0.0))
            for r in self.of(Update | Evaluation)
        ]

    @property
    def weights(self):
        return {
            folder.name: (folder / "adapter_model.safetensors").read_bytes()
            for folder in (self.folder.adapter, self.folder.best)
            if folder.exists()
        }

    @property
    def notices(self):
        return [notice.message for notice in self.of(Notice)]

    def checkpoint(self, window):
        return self.folder.path / "checkpoints" / f"{window:08d}"


@pytest.fixture
def carry_out(attempt, carry_out_in):
    """Runs an attempt, its random generators left anywhere; it is interrupted after a window."""

    def to_its_end(spec, *, until=None):
        folder = attempt(spec)
        carry_out_in(folder, spec, until)
        lines = folder.events.read_text("utf-8").splitlines()
        return Attempt(folder=folder, records=[decode(line).record for line in lines])

    return to_its_end


@pytest.fixture
def spec(bench):
    """Eleven windows or so, evaluated at 0, 100 and 200, the best weights kept."""
    return bench.spec(checkpoint=EVERY_THIRD, keep_best=True)


@pytest.fixture
def after(spec):
    """Returns the spec of an attempt that is to go on from another one."""

    def make(earlier, **changes):
        number = spec.attempt + 1
        before = {"attempt": number, "resume_from": str(earlier.folder.path)}
        return spec.model_copy(update=before | changes)

    return make


@pytest.fixture
def whole(spec, carry_out):
    return carry_out(spec)


# --- going on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 4, 5, 9])
def test_two_attempts_are_together_what_one_is_to_the_bit(cut, spec, after, carry_out, whole):
    first = carry_out(spec, until=cut)
    second = carry_out(after(first))
    assert first.records[-1].reason is Reason.PREEMPTED
    assert first.computed + second.computed == whole.computed
    assert second.weights == whole.weights
    assert sorted(second.weights) == ["adapter", "best"]
    assert second.of(Artifact) == whole.of(Artifact)
    assert second.records[-1] == whole.records[-1]


def test_a_resumed_attempt_says_so_right_after_its_start(spec, after, carry_out):
    first = carry_out(spec, until=4)
    second = carry_out(after(first))
    made = first.of(CheckpointMade)
    place = next(i for i, record in enumerate(second.records) if isinstance(record, Started))
    assert [checkpoint.window for checkpoint in made] == [3, 4]
    assert second.records[place + 1] == Resumed(
        after_window=4,
        checkpoint=str(first.checkpoint(4)),
        sha256=made[-1].sha256,
        differences=(),
    )
    assert second.notices == []
    assert second.of(Started) == first.of(Started)
    assert second.of(Update)[0].window == 5


def test_an_attempt_that_was_interrupted_after_its_last_window_only_has_to_end(
    spec, after, carry_out, whole
):
    first = carry_out(spec, until=spec.planned.windows)
    second = carry_out(after(first))
    assert second.of(Update) == []
    assert second.records[-1] == whole.records[-1]
    assert second.weights == whole.weights


def test_the_windows_after_a_checkpoint_are_read_again_where_no_interruption_was_foreseen(
    spec, after, carry_out, whole
):
    """As after a kill: whatever came after window 3 is gone."""
    first = carry_out(spec, until=5)
    shutil.rmtree(first.checkpoint(5))
    second = carry_out(after(first))
    assert [update.window for update in second.of(Update)][:2] == [4, 5]
    assert second.computed[:2] == first.computed[-2:]
    assert second.weights == whole.weights


def files_of(folder):
    return {
        path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in folder.path.rglob("*")
    }


def test_the_folder_of_an_earlier_attempt_is_only_read(spec, after, carry_out):
    first = carry_out(spec, until=4)
    before = files_of(first.folder)
    carry_out(after(first))
    assert files_of(first.folder) == before


# --- damage -------------------------------------------------------------------------------------


def test_a_damaged_checkpoint_is_named_and_passed_over_for_the_one_before(
    spec, after, carry_out, whole
):
    first = carry_out(spec, until=7)
    (first.checkpoint(7) / "complete.json").unlink()
    state = first.checkpoint(6) / "state.json"
    state.write_bytes(state.read_bytes()[:-100])
    second = carry_out(after(first))
    assert second.of(Resumed)[0].after_window == 3
    unmarked, changed = second.notices
    assert unmarked == (
        f"the checkpoint {first.checkpoint(7)} is passed over: it has no mark that it is complete"
    )
    assert changed == (
        f"the checkpoint {first.checkpoint(6)} is passed over: state.json is not what was written"
        " (SHA-256 differs)"
    )
    assert second.weights == whole.weights


def test_with_no_checkpoint_left_the_trial_starts_over_and_says_so(spec, after, carry_out, whole):
    first = carry_out(spec, until=4)
    for window in (3, 4):
        (first.checkpoint(window) / "tensors.safetensors").write_bytes(b"")
    second = carry_out(after(first))
    assert second.of(Resumed) == []
    assert second.notices[-1] == (
        f"no checkpoint in {first.folder.path} to go on from: the trial starts over"
    )
    assert len(second.notices) == 3
    assert second.computed == whole.computed
    assert second.weights == whole.weights


def test_a_folder_that_is_gone_is_one_without_a_checkpoint(after, carry_out, spec, whole):
    first = carry_out(spec, until=4)
    shutil.rmtree(first.folder.path)
    second = carry_out(after(first))
    assert second.notices[-1].endswith("to go on from: the trial starts over")
    assert second.weights == whole.weights


# --- further back -------------------------------------------------------------------------------


def test_an_attempt_that_made_no_checkpoint_points_to_the_one_that_it_went_on_from(
    spec, after, carry_out, whole
):
    first = carry_out(spec, until=4)
    second = carry_out(after(first), until=0)  # asked to end before its first window
    third = carry_out(after(second))
    assert second.records[-1].reason is Reason.PREEMPTED
    assert not (second.folder.path / "checkpoints").exists()
    assert third.of(Resumed)[0].checkpoint == str(first.checkpoint(4))
    assert third.weights == whole.weights


def test_damage_in_a_later_attempt_leads_back_to_an_earlier_one(spec, after, carry_out, whole):
    first = carry_out(spec, until=4)
    second = carry_out(after(first), until=1)
    (second.checkpoint(5) / "state.json").unlink()
    third = carry_out(after(second))
    assert third.of(Resumed)[0].after_window == 4
    assert third.notices == [
        f"the checkpoint {second.checkpoint(5)} is passed over: state.json is missing"
    ]
    assert third.weights == whole.weights


@pytest.mark.parametrize("content", [None, "", "{}", "not JSON"])
def test_an_attempt_whose_spec_cannot_be_read_leads_no_further(content, spec, after, carry_out):
    first = carry_out(spec, until=4)
    second = carry_out(after(first), until=0)
    second.folder.spec.unlink()
    if content is not None:
        second.folder.spec.write_text(content, encoding="utf-8")
    found = find_resumption(after(second), device_type="cpu")
    assert found.found is None
    assert found.notices[-1].endswith("to go on from: the trial starts over")


def test_attempts_that_point_at_each_other_are_each_looked_at_once(spec, after, attempt):
    one, two = attempt(spec), attempt(spec)
    for folder, other in ((one, two), (two, one)):
        content = after(Attempt(folder=other, records=[])).to_json()
        folder.spec.write_text(content, encoding="utf-8")
    found = find_resumption(after(Attempt(folder=one, records=[])), device_type="cpu")
    assert found.found is None


def test_a_first_attempt_looks_for_nothing_and_says_nothing(spec):
    found = find_resumption(spec, device_type="cpu")
    assert (found.found, found.notices, found.differences) == (None, (), ())


# --- what is not its own ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cell": "double/3"}, "cell double/3, fingerprint 0"),
        ({"fingerprint": "1" * 64}, "cell baseline/3, fingerprint 1"),
        ({"study": "other"}, f"fingerprint {'0' * 64}, study other"),
    ],
)
def test_a_checkpoint_of_another_trial_is_named_and_passed_over(
    changes, told, spec, after, carry_out
):
    first = carry_out(spec.model_copy(update=changes), until=2)
    found = find_resumption(after(first), device_type="cpu")
    assert found.found is None
    assert (
        f"{first.checkpoint(2)} is passed over: it belongs to another trial: " in found.notices[0]
    )
    assert told in found.notices[0]


def test_a_checkpoint_that_names_no_owner_is_passed_over(spec, after, carry_out):
    first = carry_out(spec, until=2)
    snapshot = read_checkpoint(first.checkpoint(2)).snapshot
    write_checkpoint(first.checkpoint(2).parent, snapshot, owner={})
    found = find_resumption(after(first), device_type="cpu")
    assert found.found is None
    assert found.notices[0].endswith("it belongs to another trial: nobody says which")


# --- elsewhere ----------------------------------------------------------------------------------


@pytest.fixture
def made_elsewhere(spec, carry_out):
    """An attempt whose checkpoint says that a GPU made it, or two ranks."""

    def make(**facts):
        first = carry_out(spec, until=4)
        found = read_checkpoint(first.checkpoint(4))
        given = {**found.snapshot.facts, **facts}
        snapshot = dataclasses.replace(found.snapshot, facts=given)
        write_checkpoint(first.checkpoint(4).parent, snapshot, owner=owner_of(spec))
        return first

    return make


TWO_RANKS = {"random": [{}, {}]}
GPU = {"device": "cuda"}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (GPU, "the device was cuda, now cpu"),
        (TWO_RANKS, "the number of ranks was 2, now 1"),
        (GPU | TWO_RANKS, "the device was cuda, now cpu"),
    ],
)
def test_going_on_elsewhere_is_refused_unless_it_is_asked_for(facts, told, made_elsewhere, after):
    first = made_elsewhere(**facts)
    with pytest.raises(ModelError) as refused:
        find_resumption(after(first), device_type="cpu")
    assert refused.value.faults[0].what == f"the trial cannot go on to the bit: {told}"
    assert refused.value.faults[0].where == str(first.checkpoint(4))
    assert len(refused.value.faults) == len(facts)


def test_an_attempt_that_is_refused_ends_so_and_trains_nothing(made_elsewhere, after, carry_out):
    second = carry_out(after(made_elsewhere(**GPU)))
    assert "cannot go on to the bit: the device was cuda, now cpu" in second.records[-1].detail
    assert second.of(Update) == []


def test_going_on_elsewhere_when_it_is_asked_for_is_marked(made_elsewhere, after, carry_out):
    first = made_elsewhere(**GPU, random=[{}, {}])
    second = carry_out(after(first, resume_elsewhere=True))
    resumed = second.of(Resumed)[0]
    assert resumed.after_window == 4
    assert resumed.differences == (
        "the device was cuda, now cpu",
        "the number of ranks was 2, now 1",
    )
    assert second.records[-1].reason is Reason.BUDGET_REACHED
