"""Which slots are right for which cells: cells of a seed go where the seed began."""

import json
from types import MappingProxyType, SimpleNamespace

import pytest

from sweeper.errors import StudyConflict
from sweeper.records import Outcome, Reason
from sweeper.report.standing import Waiting, standing
from sweeper.store.store import StudyStore
from sweeper.study.plan import Cell
from sweeper.study.run_options import RunOptions
from sweeper.sweep import devices, wrong_nodes
from sweeper.sweep.devices import Places, places_of
from sweeper.sweep.stop_request import StopRequest
from sweeper.trial.surroundings import other_environment
from sweeper.workers.gpus import list_gpus
from sweeper.workers.slots import Slot

CELLS = tuple(
    Cell(id=f"{arm}/{seed}", arm=arm, seed=seed, value=0.1)
    for seed in (0, 1)
    for arm in ("baseline", "half")
)
FIRST = Slot(name="gpu GPU-a", device="GPU-a")
SECOND = Slot(name="gpu GPU-b", device="GPU-b")
ENGINE = Slot(name="slurm 1", device="GPU-b", engine=True)


class Driver:
    """A host with two GPUs of two models; answers like `pynvml`."""

    NVMLError = NVMLError_LibraryNotFound = NVMLError_DriverNotLoaded = OSError
    models = MappingProxyType({"GPU-a": "NVIDIA A100", "GPU-b": "NVIDIA H100"})

    def nvmlInit(self):  # noqa: N802
        """Opens nothing."""

    def nvmlShutdown(self):  # noqa: N802
        """Closes nothing."""

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.models)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return list(self.models)[index]

    def nvmlDeviceGetUUID(self, device):  # noqa: N802
        return device

    def nvmlDeviceGetName(self, device):  # noqa: N802
        return self.models[device]

    def nvmlDeviceGetMigMode(self, _device):  # noqa: N802
        raise OSError("not supported")

    def nvmlDeviceGetComputeRunningProcesses(self, _device):  # noqa: N802
        return []


@pytest.fixture
def two_models(monkeypatch):
    """This host has two GPUs, one of them an A100, the other an H100."""
    monkeypatch.setattr(devices, "gpus_if_told", lambda: list_gpus(Driver()))


@pytest.fixture
def no_driver(monkeypatch):
    """Nobody can name this host's GPUs."""
    monkeypatch.setattr(devices, "gpus_if_told", lambda: ())


@pytest.fixture
def on_two_models(tmp_path, small):
    """Two seeds with two arms each; the trials report the models of the GPUs they are given."""
    made = small(tmp_path, seeds="[0, 1]")
    (made.place / "gpus.json").write_text(json.dumps(dict(Driver.models)))
    made.behave({})
    return made


def slots_of(study):
    with StudyStore.read(study.url) as store:
        return {(row["trial"], row["slot"], row["reason"]) for row in store.attempts()}


# --- what is known before a trial has run -------------------------------------------------------


@pytest.mark.usefixtures("two_models")
def test_of_a_slot_its_gpu_is_known_with_what_is_installed_and_what_the_file_says():
    run = RunOptions(micro_batch=4, deterministic=False)
    known = places_of([FIRST, Slot(name="cpu 1", device=None)], run, anywhere=False)

    assert known.known("gpu GPU-a")["device"] == "NVIDIA A100"
    assert known.known("cpu 1")["device"] == "cpu"
    assert {"cpu", "python", "torch", "transformers", "peft"} <= known.known("cpu 1").keys()
    fields = ("micro_batch", "ranks", "deterministic", "threads")
    assert [known.known("cpu 1")[name] for name in fields] == ["4", "1", "no", "1"]


@pytest.mark.usefixtures("no_driver")
def test_a_gpu_that_nobody_names_is_some_gpu_and_of_an_engine_nothing_is_known():
    engine = Slot(name="slurm 1", device=None, engine=True)
    known = places_of([FIRST, engine], RunOptions(micro_batch=4), anywhere=False)

    assert known.known("gpu GPU-a")["device"] == "a GPU"
    assert known.known("slurm 1") == {}


def test_what_a_trial_reports_is_known_of_its_slot_from_then_on():
    record = devices.Started(
        initial_digest="",
        trainable_parameters=1,
        adapted_modules=(),
        environment={"device": "NVIDIA A100", "cuda": "12.8", "precision": "bfloat16"},
    )
    places = Places({"gpu": {"device": "a GPU"}, "slurm 1": {}})
    for slot in ("gpu", "slurm 1"):
        places.saw(slot, [SimpleNamespace(record=record)])

    assert places.known("gpu") == {"device": "NVIDIA A100", "cuda": "12.8"}
    assert places.known("slurm 1") == {}


def test_a_slot_that_was_found_to_be_the_wrong_place_takes_no_cell_of_the_seed_any_more():
    wrong = other_environment({"device": "H100"}, {"device": "A100"})
    places = Places({"gpu": {"device": "a GPU"}, "slurm 1": {}})

    assert places.ended("gpu", 0, wrong)
    assert places.ended("slurm 1", 0, wrong)
    assert not places.ended("gpu", 1, Outcome(reason=Reason.KILLED, detail=""))

    assert places.unfit("gpu", CELLS) == {"baseline/0", "half/0"}
    assert places.unfit("slurm 1", CELLS) == frozenset()
    assert places.known("gpu") == {"device": "H100"}


# --- whole studies, whose trials are small scripts ----------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("two_models")
def test_two_models_of_gpus_share_a_study_seed_by_seed(on_two_models):
    on_two_models.behave({"baseline/0": ["unhurried"]})

    end = on_two_models.run(slots=[FIRST, SECOND])

    assert end.counts == {"completed": 4}
    found = {trial: slot for trial, slot, _ in slots_of(on_two_models)}
    assert found["baseline/0"] == found["half/0"]
    assert found["baseline/1"] == found["half/1"]
    assert len(slots_of(on_two_models)) == 4, "nothing was lost on the way"


@pytest.fixture
def half_done(on_two_models, recorder):
    """The first cell is done, on the A100."""
    stop = StopRequest()
    on_two_models.run(slots=[FIRST], stop=stop, observer=recorder(trial_ended=stop.ask))
    return on_two_models


@pytest.mark.slow
@pytest.mark.usefixtures("two_models")
def test_where_no_slot_is_like_the_first_the_start_is_refused_with_both_models(half_done):
    with pytest.raises(StudyConflict) as refusal:
        half_done.run(slots=[SECOND])

    (fault,) = refusal.value.faults
    assert (fault.where, fault.got, fault.expected) == (
        "run.slots",
        "gpu GPU-b with device NVIDIA H100",
        "device NVIDIA A100",
    )
    assert "--resume-elsewhere" in fault.hint


@pytest.mark.slow
@pytest.mark.usefixtures("two_models")
def test_cells_whose_only_slot_is_set_aside_wait_and_run_and_status_say_why(half_done):
    text = half_done.file.path.read_text()
    half_done.file.path.write_text(text.replace("max_resumes: 1", "quarantine_after: 1"))
    faulty = type(half_done)(half_done.place)
    faulty.behave({"half/0": ["device_error"], "baseline/1": ["unhurried"]})

    end = faulty.run(slots=[FIRST, SECOND])

    assert (end.counts, end.status) == ({"completed": 3, "waiting": 1}, 3)
    why = (
        "its seed began with baseline/0 on device NVIDIA A100; slot gpu GPU-b has device NVIDIA "
        "H100"
    )
    assert end.waits == {"half/0": why}
    assert standing(faulty.file.path).waiting == [Waiting(trial="half/0", why=why)]
    assert faulty.run(slots=[FIRST, SECOND], elsewhere=True).counts["completed"] == 3
    assert standing(faulty.file.path).waiting == []


@pytest.mark.slow
@pytest.mark.usefixtures("no_driver")
def test_what_is_not_known_before_the_trial_finds_out_itself(half_done):
    """The driver names no model, so the H100 takes a cell of the seed, once."""
    end = half_done.run(slots=[SECOND])

    assert (end.counts, end.status) == ({"completed": 3, "waiting": 1}, 3)
    assert ("half/0", "gpu GPU-b", "preempted") in slots_of(half_done)
    assert end.waits["half/0"].endswith("slot gpu GPU-b has device NVIDIA H100")
    assert half_done.run(slots=[FIRST]).counts == {"completed": 4}


@pytest.mark.slow
@pytest.mark.usefixtures("two_models")
def test_a_cell_that_an_engine_puts_in_the_wrong_place_waits_however_often_and_status_says_why(
    half_done, recorder, monkeypatch
):
    """Five times, which is more than the one loss that `max_resumes` allows."""
    monkeypatch.setattr(wrong_nodes, "FIRST_PAUSE_SECONDS", 0.01)
    stop = StopRequest()

    def count():
        if observer.ended.count(("half/0", "preempted")) == 5:
            stop.ask()

    observer = recorder(trial_ended=count)
    half_done.run(slots=[ENGINE], stop=stop, observer=observer)

    why = (
        "its seed began on device NVIDIA A100; attempt 5 was given a place with device NVIDIA H100"
    )
    assert standing(half_done.file.path).waiting == [Waiting(trial="half/0", why=why)]
    assert half_done.run(slots=[FIRST, SECOND]).counts == {"completed": 4}


@pytest.mark.slow
@pytest.mark.usefixtures("two_models")
def test_before_the_engine_is_asked_for_such_a_cell_again_it_gets_the_others(half_done, recorder):
    stop = StopRequest()

    def count():
        if len(observer.ended) == 3:
            stop.ask()

    observer = recorder(trial_ended=count)

    half_done.run(slots=[ENGINE], stop=stop, observer=observer)

    assert sorted(observer.ended) == [
        ("baseline/1", "budget_reached"),
        ("half/0", "preempted"),
        ("half/1", "budget_reached"),
    ]
    assert any("half/0" in m and "handed over again in 60 s" in m for m in observer.messages)
