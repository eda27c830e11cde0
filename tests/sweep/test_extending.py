"""Further arms beyond the edge: added by the run that finds them due, once, and on record."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from sweeper.errors import StudyConflict
from sweeper.report.comparison import evidence
from sweeper.selection.chain import EntryKind
from sweeper.selection.comparison import compare
from sweeper.store.rounds import RecordedRounds
from sweeper.store.store import StudyStore
from sweeper.study.spec import TrialSpec
from sweeper.sweep.extending import Extending, next_round, plan_on_record
from sweeper.sweep.founding import founded
from sweeper.sweep.freezing import Wish, choice_of
from sweeper.sweep.interventions import retry_trial
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.rebuilding import rebuild
from sweeper.sweep.stop_request import StopRequest

pytestmark = pytest.mark.slow  # real studies, though of trials without torch

SEEDS = (0, 1, 2)
DECLARED = [f"{arm}/{seed}" for seed in SEEDS for arm in ("baseline", "half")]
FIRST_ROUND = [f"x0.25/{seed}" for seed in SEEDS]
SECOND_ROUND = [f"x0.125/{seed}" for seed in SEEDS]


def crash_points():
    spec = importlib.util.spec_from_file_location(
        "crash_points_of_extending", Path(__file__).with_name("crash_points.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CRASH = crash_points()


def act(name):
    """Carries the trials out within this process; each does what that method of theirs says."""
    return CRASH.Instant(lambda trial: getattr(trial, name)())


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Slots look again at once; trials in this process see no GPU, and set no signal handlers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sweeper.sweep.slot_loop.LOOK_SECONDS", 0.02)
        patch.setattr("signal.signal", lambda *_: None)
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        yield


def make(place, extensions, *, seeds=str(list(SEEDS)), rule="baseline_failed", storage="sqlite"):
    """Makes a study of half and baseline; the lower the rate, the better."""
    settings = {"extensions": str(extensions), "rule": rule, "storage": storage}
    return CRASH.SMALL.SmallStudy(place, seeds=seeds, **settings)


@pytest.fixture
def grow(tmp_path):
    return partial(make, tmp_path)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A study to which two rounds were added, with its first run's end and what it told."""
    study, observer = make(tmp_path_factory.mktemp("grown"), 2), Told()
    return study, run(study, observer=observer), observer


@pytest.fixture(scope="module")
def before_the_round(tmp_path_factory):
    study = make(tmp_path_factory.mktemp("killed"), 1)
    killed(study, "before")
    return study.place


@pytest.fixture
def due(before_the_round, tmp_path):
    """A study whose coordinator was killed between the decision for an arm and its record."""
    shutil.copytree(before_the_round, tmp_path, dirs_exist_ok=True)
    return make(tmp_path, 1)


@pytest.fixture(params=["file", "server"])
def due_anywhere(request):
    """A study as `due` is, in a file or on a server."""
    if request.param == "file":
        return request.getfixturevalue("due")
    grow, storage = (request.getfixturevalue(name) for name in ("grow", "on_server"))
    study = grow(1, storage=storage)
    killed(study, "before")
    return study


class Told(SilentObserver):
    """Remembers what it is told."""

    def __init__(self):
        self.started = []
        self.messages = []

    def slot_started(self, *, slot, cell, attempt):
        self.started.append(cell)

    def message(self, text):
        self.messages.append(text)


def run(study, *, behaviour="better_when_lower", **how):
    return study.run(launcher=act(behaviour), **how)


def reader(study):
    return partial(evidence, study=study.file.study)


def cells(study):
    with StudyStore.read(study.url) as store:
        return {cell.cell: cell for cell in store.cells()}


def told_of_rounds(study):
    with StudyStore.read(study.url) as store:
        notes = [link.facts for link in store.chain.links(EntryKind.NOTE)]
    return [(facts["extension"], facts["round"]) for facts in notes]


def killed(study, side):
    """Runs the study in a process that is killed right before, or after, it records the round."""
    add = RecordedRounds.add

    def deadly(self, *facts):
        done = side == "after" and add(self, *facts)
        os.kill(os.getpid(), signal.SIGKILL)
        return done

    def action():
        RecordedRounds.add = deadly
        return run(study).status

    status = CRASH.in_a_process(action, study.place / "killed.log")
    assert os.WTERMSIG(status) == signal.SIGKILL, (study.place / "killed.log").read_text()


class TestRounds:
    def test_a_run_adds_one_arm_after_another_beyond_the_edge_and_no_more(
        self, grown, optuna_trials
    ):
        study, end, observer = grown

        assert end.status == 0
        assert end.counts == {"completed": 12}
        assert observer.started == [*DECLARED, *FIRST_ROUND, *SECOND_ROUND]
        assert observer.messages == [
            "round 1: half is at the edge, so x0.25 (5e-05) is added for the same seeds",
            "round 2: x0.25 is at the edge, so x0.125 (2.5e-05) is added for the same seeds",
        ]
        known = cells(study)
        assert [known[name].round for name in observer.started] == [0] * 6 + [1] * 3 + [2] * 3
        assert known["x0.125/1"].value == 2e-4 * 0.125
        told = optuna_trials(study)["x0.25/2"]
        assert (told.state.name, told.params) == ("COMPLETE", {"learning_rate": 2e-4 * 0.25})
        assert told_of_rounds(study) == [("x0.25", 1), ("x0.125", 2)]

    def test_run_again_nothing_is_added(self, grown):
        study = grown[0]

        again = run(study)

        assert again.did_nothing
        assert again.counts == {"completed": 12}
        with StudyStore.read(study.url) as store:
            assert store.study().ended_why == "every cell has ended"

    def test_an_added_arm_is_told_what_every_arm_of_the_seed_was_told(self, grown):
        study = grown[0]

        spec, baseline = (
            TrialSpec.read(study.folder.attempt(arm=arm, seed=1, number=1) / "spec.json")
            for arm in ("x0.25", "baseline")
        )
        assert spec.planned == baseline.planned
        assert spec.fingerprint == baseline.fingerprint == study.plan.fingerprint
        differing = {
            key for key, value in spec.settings().items() if baseline.settings()[key] != value
        }
        assert differing == {"training.learning_rate"}

    def test_the_comparison_has_the_round_and_the_larger_family(self, grown):
        study = grown[0]

        with StudyStore.read(study.url) as store:
            shown = reader(study)(store)
        found = compare(shown)
        assert [(arm.name, arm.round) for arm in shown.arms] == [
            ("baseline", 0), ("half", 0), ("x0.25", 1), ("x0.125", 2),
        ]  # fmt: skip
        assert [arm.arm for arm in found.arms] == ["half", "x0.25", "x0.125"]
        assert found.boundary.best == "x0.125"
        assert found.boundary.next_arm is None

    def test_several_slots_take_the_round_that_one_of_them_added(self, grow):
        study = grow(1)

        end = run(study, slots=2)

        assert end.counts == {"completed": 9}
        assert told_of_rounds(study) == [("x0.25", 1)]

    @pytest.mark.parametrize(
        ("extensions", "behaviour", "seeds"),
        [
            (0, "better_when_lower", str(list(SEEDS))),
            (1, "late_error", str(list(SEEDS))),
            (1, "stop", str(list(SEEDS))),
            (1, "better_when_lower", "[0, 1]"),
        ],
        ids=["not agreed", "failed", "stopped", "two seeds"],
    )
    def test_no_arm_is_added_where_no_rate_is_known_to_be_best(
        self, grow, extensions, behaviour, seeds
    ):
        study = grow(extensions, seeds=seeds, rule="never")

        run(study, behaviour=behaviour)

        assert all(cell.round == 0 for cell in cells(study).values())

    def test_nothing_is_added_once_the_user_asked_to_end(self, grow, recorder):
        study, stop = grow(1), StopRequest()
        observer = recorder()
        ended = lambda: len(observer.ended) == 6 and stop.ask()  # noqa: E731
        observer.on = {"trial_ended": ended}

        run(study, observer=observer, stop=stop)
        assert len(cells(study)) == 6

        assert run(study).counts == {"completed": 9}


class TestKilled:
    @pytest.mark.parametrize("side", ["before", "after"])
    def test_the_next_run_does_the_rest_once(self, grow, side, optuna_trials):
        study = grow(1)
        killed(study, side)
        assert len(cells(study)) == {"before": 6, "after": 9}[side]

        end = run(study)

        assert (end.status, end.counts) == (0, {"completed": 9})
        assert told_of_rounds(study) == [("x0.25", 1)]
        assert list(optuna_trials(study)) == [*DECLARED, *FIRST_ROUND]
        planned = json.loads(study.folder.plan.read_text())
        assert [cell["id"] for cell in planned["cells"]] == [*DECLARED, *FIRST_ROUND]
        assert [name for name, _ in planned["arms"]] == ["baseline", "half"]

    def test_of_two_that_come_at_once_one_adds_the_arm_and_both_know_it(self, due_anywhere):
        study = due_anywhere

        with contextlib.ExitStack() as opened:
            both = [_extending(study, opened) for _ in range(2)]
            ready = threading.Barrier(2)

            def extend(each):
                plan = each.plan
                ready.wait()
                each.added = each.extend(plan)

            threads = [threading.Thread(target=extend, args=(each,)) for each in both]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            [each.catch_up() for each in both]

            assert [arm.name for each in both for arm in each.plan.arms[2:]] == ["x0.25"] * 2
        assert told_of_rounds(study) == [("x0.25", 1)]

    def test_a_cell_that_another_worker_added_is_learnt_when_it_is_claimed(self, due):
        study = due

        with contextlib.ExitStack() as opened:
            first, second = (_extending(study, opened) for _ in range(2))
            first.extend(first.plan)
            second.know("x0.25/1")

            assert second.plan.cells == first.plan.cells
            assert second.optuna_study.knows("x0.25/1")

    def test_the_choice_waits_for_an_arm_that_is_due(self, due):
        study = due

        with StudyStore.read(study.url) as store:
            assert next_round(store, reader(study)).next_arm.name == "x0.25"
            with pytest.raises(StudyConflict, match="was to go on with a further arm") as refused:
                choice_of(store, study.folder, reader(study), wish=Wish())
            assert refused.value.faults[0].where == "x0.25"
            with pytest.raises(StudyConflict) as declined:
                choice_of(store, study.folder, reader(study), wish=Wish(partial=True, reason="no"))
        assert not any("further arm" in fault.what for fault in declined.value.faults)

    def test_declining_an_arm_needs_a_reason(self, due):
        study = due

        with (
            StudyStore.read(study.url) as store,
            pytest.raises(StudyConflict, match="a choice without all trials needs a reason"),
        ):
            choice_of(store, study.folder, reader(study), wish=Wish(partial=True))


def _extending(study, opened):
    store, optuna_study = opened.enter_context(founded(study.file, study.plan, study.folder))
    return _Watched(
        study_file=study.file,
        plan=plan_on_record(study.plan, study.file.study, store),
        folder=study.folder,
        store=store,
        optuna_study=optuna_study,
        read=reader(study),
        stop=StopRequest(),
        observer=SilentObserver(),
    )


class _Watched(Extending):
    added = False


def on_record(study):
    with StudyStore.read(study.url) as store:
        return store.trials(), store.rounds.arms(), store.study().arms


def test_a_lost_database_is_made_anew_with_the_rounds(grown):
    study = grown[0]
    before = on_record(study)
    study.folder.database.unlink()

    rebuild(study.folder, replace=False, observer=SilentObserver())

    assert on_record(study) == before
    assert told_of_rounds(study) == [("x0.25", 1), ("x0.125", 2)]


def test_made_anew_a_round_comes_behind_the_trial_that_was_retried_before_it(grow):
    study = grow(1, rule="never")
    study.run(launcher=CRASH.Instant(fails_in_half_of_seed_1))
    retry_trial(study.file, study.folder, "half/1", observer=SilentObserver())
    run(study)
    before = on_record(study)
    assert {row["trial"]: row["optuna_number"] for row in before[0]} == {
        **dict(zip(DECLARED, [0, 1, 2, 6, 4, 5], strict=True)),
        **dict(zip(FIRST_ROUND, [7, 8, 9], strict=True)),
    }
    study.folder.database.unlink()

    rebuild(study.folder, replace=False, observer=SilentObserver())

    assert on_record(study) == before


def fails_in_half_of_seed_1(trial):
    fails = trial.spec["cell"] == "half/1"
    return trial.late_error() if fails else trial.better_when_lower()
