"""A study on PostgreSQL, whose server is restarted and whose sessions are killed in mid-run."""

import json
import re
import time

import pandas as pd
import pytest

import sweeper
from sweeper.records import Update, decode

pytestmark = pytest.mark.slow

FACTS = [
    *("trial", "arm", "seed", "learning_rate", "status", "outcome", "reason", "detail"),
    *("initial_loss", "first_window_loss", "validation_loss", "last_finite_loss"),
    *("retention_initial_loss", "retention_loss", "target_tokens_read", "target_tokens_applied"),
    *("records", "input_tokens", "padding_tokens", "windows", "updates", "skipped", "clipped"),
    *("attempts", "adapter_path", "initial_digest", "record_digest", "optuna_number"),
    "fingerprint",
]
"""All columns of the trials but what clocks and memory say."""
SECONDS_OF_TRAINING = re.compile(r" \([\d.]+ to [\d.]+ s of training\)")


@pytest.fixture
def on_server(like_undisturbed, on_postgres):
    return on_postgres(like_undisturbed(slots="[cpu]"))


def has_trained(study, cell):
    """Whether the cell's attempts have reported a window by now."""
    files = study.run_folder.glob(f"trials/{cell}/attempts/*/events.jsonl")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return any(isinstance(decode(line).record, Update) for line in lines if line.endswith("}"))


def frames(study):
    clocks = ["at", "seconds", "peak_memory_bytes", "sequence"]
    return (
        sweeper.trials(study)[FACTS],
        sweeper.updates(study).drop(columns=clocks),
        sweeper.evaluations(study).drop(columns=clocks, errors="ignore"),
    )


def test_a_server_that_fails_in_mid_run_costs_nothing(on_server, undisturbed, postgres):
    run = on_server.start("run", str(on_server.study))
    on_server.wait_for(lambda: has_trained(on_server, "baseline-0"))
    postgres.stop()
    try:
        time.sleep(6)
    finally:
        postgres.start()
    on_server.wait_for(lambda: has_trained(on_server, "double-0"))
    assert postgres.end_sessions() >= 1

    assert run.wait(timeout=200) == 0, on_server.log.read_text()

    assert "the database did not take" in on_server.log.read_text()
    for ours, theirs in zip(frames(on_server.study), frames(undisturbed.study), strict=True):
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    assert compared(on_server) == compared(undisturbed)
    status = json.loads(on_server.here("status", str(on_server.study), "--json").stdout)
    assert status["counts"] == {"completed": 4}
    told = [file for file in on_server.folder.rglob("*") if file.is_file()]
    assert not any(postgres.PASSWORD.encode() in file.read_bytes() for file in told)
    assert not (on_server.run_folder / "study.db").exists()


def compared(study):
    """What `compare` answers, from the run folder; how long trials took is another each time.

    A sentence tells seconds of training only where the machine was quiet enough to compare them.
    """
    said = study.here("compare", str(study.run_folder), "--json", expect=None).stdout
    return untimed(json.loads(said))


def untimed(value):
    if isinstance(value, list):
        return [untimed(each) for each in value]
    if isinstance(value, dict):
        return {name: untimed(each) for name, each in value.items() if not timed(name)}
    return SECONDS_OF_TRAINING.sub("", value) if isinstance(value, str) else value


def timed(name):
    return "seconds" in name or name == "throughput"
