"""Faults are joined to attempts by hand-made values; what does not fit together is found."""

import dataclasses
import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/chaos_faults.py"


def load_script():
    spec = importlib.util.spec_from_file_location("chaos_faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["chaos_faults"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


chaos = load_script()
Kind = chaos.Kind
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def process(pid, started_at=1000.0):
    return chaos.Process(pid=pid, started_at=started_at)


COORDINATOR, SUPERVISOR, CHILD = process(1), process(2), process(3)
ATTEMPT = chaos.Attempt(
    cell="baseline/0",
    number=1,
    claimed_at=at(0),
    ended_at=at(21),
    life=chaos.Span(begin=at(1), end=at(20)),
    outcome="lost",
    reason="killed",
    coordinator=COORDINATOR,
    supervisor=SUPERVISOR,
    child=CHILD,
)
COMPLETED = {"outcome": "completed", "reason": "budget_reached"}


def attempt(**changes):
    return dataclasses.replace(ATTEMPT, **changes)


def fault(kind, seconds, *, number=1, lasting=0, **more):
    hit = {"process": CHILD, "cell": "baseline/0", "attempt": 1} | more
    return chaos.Fault(
        number=number, study="s", kind=kind, at=at(seconds), until=at(seconds + lasting), **hit
    )


def text_of(one, attempts, others=()):
    return chaos.explain(one, [one, *others], attempts).text


def test_a_kill_is_explained_by_the_attempt_that_it_ended():
    kill = fault(Kind.KILL_CHILD, 19)

    said = chaos.explain(kill, [kill], [attempt(), attempt(cell="double/0")])

    assert said.attempts == ("baseline/0 #1",)
    assert said.text == "ended baseline/0 #1 (killed)"


@pytest.mark.parametrize(
    ("kind", "reason", "whom"),
    [
        (Kind.END_CHILD, "preempted", CHILD),
        (Kind.KILL_SUPERVISOR, "worker_lost", SUPERVISOR),
        (Kind.FREEZE_SUPERVISOR, "worker_lost", SUPERVISOR),
        (Kind.KILL_COORDINATOR, "worker_lost", COORDINATOR),
        (Kind.INTERRUPT, "user_cancelled", COORDINATOR),
        (Kind.FULL_DISK, "disk", None),
    ],
)
def test_each_kind_ends_attempts_for_its_own_reason(kind, reason, whom):
    ended = [attempt(reason=reason)]
    assert text_of(fault(kind, 19, process=whom), ended) == f"ended baseline/0 #1 ({reason})"
    assert text_of(fault(kind, 19, process=whom), [attempt(reason="code_error")]) is None


@pytest.mark.parametrize(
    "kind", [Kind.KILL_CHILD, Kind.KILL_SUPERVISOR, Kind.KILL_COORDINATOR, Kind.FREEZE_CHILD]
)
def test_a_trial_that_completes_long_after_its_kill_is_suspicious(kind):
    whom = {Kind.KILL_SUPERVISOR: SUPERVISOR, Kind.KILL_COORDINATOR: COORDINATOR}.get(kind, CHILD)
    late = attempt(**COMPLETED, life=chaos.Span(begin=at(1), end=at(90)), ended_at=at(91))

    assert text_of(fault(kind, 10, process=whom), [late]) is None


def test_the_job_of_an_engine_may_outlive_its_coordinator():
    late = attempt(**COMPLETED, life=chaos.Span(begin=at(1), end=at(90)), ended_at=at(91))
    kill = fault(Kind.KILL_COORDINATOR, 10, process=COORDINATOR)

    assert text_of(kill, [late]) is None
    job = dataclasses.replace(late, is_job=True)
    assert text_of(kill, [job]) == "no effect: baseline/0 #1 completed"


def test_a_trial_that_completes_at_the_moment_of_its_kill_is_not():
    said = text_of(fault(Kind.KILL_CHILD, 20), [attempt(**COMPLETED)])
    assert said == "no effect: baseline/0 #1 completed"


def test_the_kill_of_an_attempt_that_nobody_knows_is_unexplained():
    assert text_of(fault(Kind.KILL_CHILD, 19, attempt=2), [attempt()]) is None


def test_a_fault_on_what_had_gone_has_no_effect():
    gone = fault(Kind.KILL_CHILD, 19, was_gone=True)
    assert text_of(gone, [attempt()]) == "no effect: it had gone by then"


def test_a_supervisor_without_a_trial_may_be_killed():
    idle = fault(Kind.KILL_SUPERVISOR, 19, process=process(77))
    assert text_of(idle, [attempt()]) == "no effect: no attempt depended on it then"


def test_the_same_process_id_at_another_time_is_another_process():
    other = fault(Kind.KILL_SUPERVISOR, 19, process=process(2, started_at=1010.0))
    assert not chaos.hits(other, attempt(reason="worker_lost"))


def test_a_supervisor_that_died_before_it_started_anything_is_named_by_the_end():
    unborn = attempt(supervisor=None, named_supervisor=2, life=None, reason="worker_lost")
    assert chaos.hits(fault(Kind.KILL_SUPERVISOR, 19, process=SUPERVISOR), unborn)


def test_a_pause_of_the_database_has_no_effect_on_a_trial_that_completes():
    pause = fault(Kind.DATABASE_AWAY, 5, lasting=5, process=None)
    assert text_of(pause, [attempt(**COMPLETED)]) == "no effect: it went on afterwards"


def test_a_pause_after_which_a_trial_is_lost_is_unexplained_unless_something_else_ended_it():
    pause = fault(Kind.DATABASE_AWAY, 5, lasting=5, process=None)
    kill = fault(Kind.KILL_CHILD, 19, number=2)

    assert text_of(pause, [attempt()]) is None
    assert text_of(pause, [attempt()], [kill]) == "no effect: it went on afterwards"


def test_of_two_faults_the_one_that_came_too_late_names_the_other():
    kill = fault(Kind.KILL_CHILD, 19)
    ctrl_c = fault(Kind.INTERRUPT, 19.5, number=2, process=COORDINATOR)

    assert text_of(ctrl_c, [attempt()], [kill]) == "no effect: baseline/0 #1 ended of #1"


def test_of_two_faults_that_may_have_ended_it_the_last_one_did():
    coordinator = fault(Kind.KILL_COORDINATOR, 12, process=COORDINATOR)
    supervisor = fault(Kind.KILL_SUPERVISOR, 19, number=2, process=SUPERVISOR)
    lost = attempt(reason="worker_lost")

    assert text_of(supervisor, [lost], [coordinator]) == "ended baseline/0 #1 (worker_lost)"
    assert text_of(coordinator, [lost], [supervisor]) == "no effect: baseline/0 #1 ended of #2"


def test_a_fault_long_before_the_end_did_not_bring_it_about():
    early = fault(Kind.KILL_CHILD, 10)
    late = attempt(life=chaos.Span(begin=at(1), end=at(60)), ended_at=at(61))

    assert chaos.cause_of(late, [early]) is None
    assert text_of(early, [late]) is None


@pytest.mark.parametrize(("begins", "is_hit"), [(10, True), (23, True), (30, False)])
def test_a_full_disk_hits_attempts_of_its_time(begins, is_hit):
    assert chaos.hits(fault(Kind.FULL_DISK, begins, lasting=2), attempt()) is is_hit


def test_an_end_without_a_fault_is_found():
    elsewhere = fault(Kind.KILL_CHILD, 19, cell="double/0")

    told = chaos.unexplained_ends([attempt(), attempt(**COMPLETED)], [elsewhere])

    assert told == ["baseline/0 #1 ended as lost (killed), and no fault says why"]


def test_an_attempt_without_an_end_is_found():
    running = attempt(ended_at=None, outcome=None, reason=None)
    told = chaos.unexplained_ends([running], [fault(Kind.KILL_CHILD, 19)])
    assert told == ["baseline/0 #1 ended as None (None), and no fault says why"]


@pytest.mark.parametrize(
    ("cell", "begin", "count"), [("baseline/0", 19, 1), ("baseline/0", 20, 0), ("double/0", 19, 0)]
)
def test_two_owners_are_processes_of_one_cell_at_the_same_time(cell, begin, count):
    second = attempt(cell=cell, number=2, life=chaos.Span(begin=at(begin), end=at(40)))
    never = attempt(number=3, life=None)

    assert len(chaos.double_owners([attempt(), second, never])) == count


def test_an_attempt_that_lived_within_another_is_found():
    inner = attempt(number=3, life=chaos.Span(begin=at(5), end=at(6)))
    apart = attempt(number=2, life=chaos.Span(begin=at(30), end=at(40)))

    (told,) = chaos.double_owners([attempt(), apart, inner])

    assert told.startswith("baseline/0 #1 and #3 had processes at the same time")


@pytest.mark.parametrize(
    ("status", "kind", "whom", "is_explained"),
    [
        (0, Kind.STOP_CHILD, CHILD, True),
        (-9, Kind.KILL_COORDINATOR, COORDINATOR, True),
        (-9, Kind.KILL_COORDINATOR, process(99), False),
        (130, Kind.INTERRUPT, COORDINATOR, True),
        (1, Kind.DATABASE_AWAY, None, True),
        (1, Kind.KILL_CHILD, CHILD, False),
        (3, Kind.FULL_DISK, None, True),
        (3, Kind.KILL_CHILD, CHILD, False),
        (2, Kind.KILL_SUPERVISOR, SUPERVISOR, False),
    ],
)
def test_a_coordinator_leaves_as_a_fault_makes_it_or_with_0(status, kind, whom, is_explained):
    left = chaos.Exit(study="s", process=COORDINATOR, status=status, at=at(20))
    told = chaos.unexplained_exits([left], [fault(kind, 19, process=whom)])
    assert (told == []) is is_explained


def test_every_kind_of_fault_says_what_it_does():
    assert set(chaos.EFFECTS) == set(Kind)
