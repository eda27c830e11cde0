"""`sweeper status`: also while another process runs the study."""

import json
import os

from sweeper.trial.folder import AttemptFolder


def test_a_study_in_mid_run_is_told_with_what_went_wrong_and_what_runs(sweeper, begun, narrow):
    ran = sweeper("status", "study.yaml")

    head, counts, *rest = [line.rstrip() for line in ran.out.splitlines()]
    assert ran.status == 0
    assert head == f"rates  {begun.folder.path}"
    assert counts == (
        "9 trials of 30 target tokens: 2 completed, 1 stopped, 1 lost, 1 failed, 1 running, "
        "3 waiting"
    )
    assert rest[:6] == [
        "",
        "Not completed",
        "double/0 stopped (nonfinite_loss): the loss of window 2 was nan",
        "baseline/1 failed (code_error): RuntimeError: no [kernel]",
        "half/1 lost (killed): killed by SIGKILL, which sweeper did not send",
        "",
    ]
    assert rest[6] == "Running"
    assert rest[7] == "trial     slot   target tokens    loss  attempt  since"
    assert rest[8].startswith("double/1  cpu:1  10 (33%)       2.3750        1  20")
    assert rest[9:] == [f"Run by process {os.getpid()} on {os.uname().nodename}, which is alive."]
    assert ran.err == "Next: sweeper status study.yaml   (while it runs)\n"


def test_a_trial_that_went_on_elsewhere_is_told(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies.go_on_elsewhere(store, "baseline/0")

    lines = sweeper("status", recorded.file).out.splitlines()

    place = lines.index("Resumed elsewhere")
    assert lines[place + 1] == (
        "baseline/0, attempt 2, after window 1: it ran on cpu and goes on on cuda"
    )


def test_a_trial_that_no_slot_takes_is_told_with_the_reason(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        owner = studies.living_owner()
        studies.go_on_elsewhere(store, "baseline/0")
        has = store.seed_places()[0].environment | {"device": "NVIDIA H100"}
        store.record_slots(owner, {"gpu 0": has})

    ran = sweeper("status", recorded.file)

    began_on = store_device(recorded)
    assert (
        f"half/0: its seed began with baseline/0 on device {began_on}; slot gpu 0 has device "
        "NVIDIA H100"
    ) in ran.out.splitlines()
    told = json.loads(sweeper("status", recorded.file, "--json").out)["waiting"]
    assert {each["trial"] for each in told} == {"half/0", "double/0"}


def store_device(recorded):
    with recorded.open() as store:
        return store.seed_places()[0].environment["device"]


def test_what_a_dead_owner_left_is_put_on_record_as_lost(sweeper, studies, tmp_path):
    """Its study resumes nothing, so that the loss is the trial's end."""
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.dead_owner(), "cpu:0")

    ran = sweeper("status", recorded.file)

    detail = "neither its coordinator nor its supervisor saw the end"
    assert ran.out.splitlines()[1:] == [
        "9 trials of 30 target tokens: 1 lost, 8 waiting",
        "",
        "Not completed",
        f"baseline/0 lost (worker_lost): {detail}",
    ]
    assert ran.err == (
        f"baseline/0: attempt 1, left by process {os.getpid()}, ended as lost (worker_lost)\n"
        f"Next: sweeper run {recorded.file}   (goes on)\n"
    )
    with recorded.open() as store:
        assert store.attempts()[0]["ended_at"] is not None
    assert sweeper("status", recorded.file).out == ran.out, "once and for all"


def test_a_lost_trial_that_is_to_be_resumed_is_told_with_its_evidence(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    recorded.file.write_text(recorded.file.read_text().replace("max_resumes: 0", "max_resumes: 1"))
    with recorded.open() as store:
        store.claim(studies.dead_owner(), "cpu:0")

    ran = sweeper("status", recorded.file)

    detail = "neither its coordinator nor its supervisor saw the end"
    assert ran.out.splitlines()[1:] == [
        "9 trials of 30 target tokens: 9 waiting",
        "",
        "Waiting to be resumed",
        f"baseline/0 lost (worker_lost): {detail}",
    ]
    (told,) = json.loads(sweeper("status", recorded.file, "--json").out)["resumable"]
    assert (told["trial"], told["reason"]) == ("baseline/0", "worker_lost")


def test_where_nothing_may_be_written_what_a_dead_owner_left_is_told_as_lost(
    sweeper, studies, tmp_path
):
    """Of a run folder that was moved nobody is the coordinator."""
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.dead_owner(), "cpu:0")
    moved = recorded.folder.path.rename(tmp_path / "elsewhere")

    ran = sweeper("status", moved)

    assert ran.out.splitlines()[1:] == [
        "9 trials of 30 target tokens: 1 lost, 8 waiting",
        "",
        "Lost with the process that ran them",
        (
            f"baseline/0, attempt 1: process {os.getpid()} on {os.uname().nodename} is gone; "
            "the next run takes it up"
        ),
    ]
    assert ran.err == f"Next: sweeper run {moved}   (goes on)\n"
    assert json.loads(sweeper("status", moved, "--json").out)["counts"] == {
        "running": 1,
        "waiting": 8,
    }


def test_a_job_whose_coordinator_is_gone_still_runs(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        claim = store.claim(studies.dead_owner(), "slurm 1")
    order = AttemptFolder(recorded.folder.path / claim.folder).order
    order.parent.mkdir(parents=True)
    order.write_text("{}")

    ran = sweeper("status", recorded.file)

    assert ran.out.splitlines()[1] == "9 trials of 30 target tokens: 1 running, 8 waiting"
    assert ran.out.splitlines()[-1].endswith(", which is gone.")
    assert ran.err == f"Next: sweeper run {recorded.file}   (goes on)\n"


def test_of_another_host_s_owner_nothing_is_claimed(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.distant_owner(), "cpu:0")

    ran = sweeper("status", recorded.file)

    assert ran.out.splitlines()[-1] == "Run by process 4711 on far, on another host than this."


def test_another_host_s_owner_that_is_silent_is_told_and_the_study_is_to_be_run(
    sweeper, studies, tmp_path
):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.distant_owner(), "cpu:0", lease_seconds=-60.0)
        (live,) = store.live_attempts()

    ran = sweeper("status", recorded.file)

    assert ran.out.splitlines()[-1] == (
        "Run by process 4711 on far, on another host than this, which is silent: its lease expired "
        f"at {live.lease_expires_at:%Y-%m-%d %H:%M} UTC."
    )
    assert ran.err == f"Next: sweeper run {recorded.file}   (goes on)\n"


def test_a_study_between_two_runs_is_to_be_run(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)

    ran = sweeper("status", recorded.file)

    assert ran.out.splitlines()[-1] == "9 trials of 30 target tokens: 9 waiting"
    assert ran.err == f"Next: sweeper run {recorded.file}   (goes on)\n"


def test_a_study_that_ended_early_says_why_and_is_to_be_compared(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.close_not_run("baseline_failed: baseline/0 was stopped")

    ran = sweeper("status", recorded.file)

    assert ran.out.splitlines()[1:] == [
        "9 trials of 30 target tokens: 9 not run",
        "Ended: baseline_failed: baseline/0 was stopped",
    ]
    assert ran.err == f"Next: sweeper compare {recorded.file}\n"


def test_json_holds_the_same(sweeper, begun):
    found = json.loads(sweeper("status", "study.yaml", "--json").out)

    assert found["counts"] == {
        "completed": 2,
        "stopped": 1,
        "lost": 1,
        "failed": 1,
        "running": 1,
        "waiting": 3,
    }
    assert found["endings"][0] == {
        "trial": "double/0",
        "outcome": "stopped",
        "reason": "nonfinite_loss",
        "detail": "the loss of window 2 was nan",
    }
    (running,) = found["running"]
    assert (running["trial"], running["pid"], running["owner_is_alive"]) == (
        "double/1",
        os.getpid(),
        True,
    )
