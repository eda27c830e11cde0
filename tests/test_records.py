"""Facts travel as lines and come back as they were."""

import hashlib
import json
import math
from datetime import UTC, datetime

import pytest

from sweeper.records import (
    EMPTY_DIGEST,
    OUTCOME_OF,
    Artifact,
    CheckpointMade,
    Evaluation,
    Event,
    Ledger,
    Notice,
    Outcome,
    OutcomeKind,
    Phase,
    PhaseBegun,
    Reason,
    Resumed,
    Skip,
    Started,
    Stop,
    Update,
    chain_digest,
    decode,
    encode,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)


def update(**changed):
    fields = {
        "window": 3,
        "updates": 2,
        "first_record": 16,
        "records": 8,
        "record_digest": "ab",
        "target_tokens": 40,
        "target_tokens_read": 120,
        "target_tokens_applied": 80,
        "input_tokens": 200,
        "padding_tokens": 12,
        "learning_rate": 2e-4,
        "loss": 1.2345678901234567,
        "gradient_norm": 0.1,
        "clipped": False,
        "ran": True,
        "skip": None,
        "seconds": 0.5,
        "peak_memory_bytes": 2**33,
    }
    return Update(**(fields | changed))


def evaluation(**changed):
    fields = {
        "split": "validation",
        "index": 1,
        "window": 3,
        "target_tokens_read": 100,
        "updates": 2,
        "loss": 0.1 + 0.2,
        "target_tokens": 7,
        "records": 2,
        "set_digest": "cd",
        "dtype": "float32",
        "micro_batch": 4,
        "seconds": 0.25,
    }
    return Evaluation(**(fields | changed))


RECORDS = [
    Started(
        initial_digest="0f",
        trainable_parameters=10,
        adapted_modules=("q_proj", "v_proj"),
        environment={"torch": "2.13.0"},
        configuration={"training.learning_rate": "0.0002"},
        scaling={"q_proj": 2.0, "v_proj": 0.5},
        matched={"lora.targets: q_proj": "q_proj"},
    ),
    PhaseBegun(phase=Phase.EVALUATING),
    PhaseBegun(phase=Phase.ENDING, seconds={"loading": 0.1 + 0.2, "training": 7.0}),
    Resumed(
        after_window=120,
        checkpoint="attempts/1/checkpoints/00000120",
        sha256="ff",
        differences=("the number of ranks was 2", "it ran on cuda"),
    ),
    CheckpointMade(window=120, path="checkpoints/00000120", sha256="ff", size_bytes=2**40),
    Ledger(planned={"windows": 4}, realized={"windows": 3}, difference="Window 4 is missing."),
    Ledger(planned={"windows": 4}, realized={"windows": 4}, difference=None),
    update(),
    update(loss_scale=65536.0, skip=Skip.SCALER_OVERFLOW, ran=False, gradient_norm=math.inf),
    update(ran=False, skip=Skip.NO_TARGETS, learning_rate=None, loss=None, gradient_norm=None),
    update(loss=math.inf, gradient_norm=-math.inf, ran=False, skip=Skip.NONFINITE_LOSS),
    evaluation(),
    evaluation(per_record_path="evaluations/validation-1.parquet", per_record_sha256="aa"),
    Stop(
        reason=Reason.DIVERGED,
        detail="1.2 above",
        window=4,
        updates=4,
        target_tokens_read=9,
        last_finite_loss=None,
    ),
    Notice(message='a "quoted" word, a\nline feed and \u00e9'),
    Artifact(kind="adapter", path="adapter", sha256="ee"),
    Artifact(kind="best", path="best", sha256="ef"),
    Outcome(reason=Reason.KILLED, detail="signal 9", evidence={"exit status": "-9"}),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_its_line_as_it_was(record):
    event = Event(sequence=7, at=NOON, record=record)

    assert decode(encode(event)) == event


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_line_is_one_line_of_strict_json(record):
    line = encode(Event(sequence=1, at=NOON, record=record))

    assert "\n" not in line
    json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_a_loss_that_is_not_a_number_comes_back_as_one():
    line = encode(Event(sequence=1, at=NOON, record=evaluation(loss=math.nan)))

    assert math.isnan(decode(line).record.loss)


def test_every_bit_of_a_loss_survives():
    loss = math.nextafter(1.6, 2)

    assert (
        decode(encode(Event(sequence=1, at=NOON, record=evaluation(loss=loss)))).record.loss == loss
    )


@pytest.mark.parametrize(
    "line",
    ["", "{", '{"sequence": 1}', "[1, 2]", '{"sequence":1,"at":"2026-01-02","record":"unknown"}'],
)
def test_a_line_that_is_not_ours_is_refused(line):
    with pytest.raises(ValueError, match=r"event line|Expecting"):
        decode(line)


@pytest.mark.parametrize(
    "fields",
    [
        '"record":"resumed","after_window":3',
        '"record":"checkpoint","window":3,"path":"checkpoints/00000003","sha256":"ff"',
        '"record":"ledger","planned":{},"realized":{}',
        '"record":"resumed","after_window":3,"checkpoint":"c","sha256":"ff","other":1',
        '"record":"phase","phase":"sleeping"',
    ],
    ids=["no checkpoint", "no size", "no difference", "one field more", "an unknown phase"],
)
def test_a_record_with_other_fields_than_its_own_is_refused(fields):
    with pytest.raises(ValueError, match=r"event line|sleeping"):
        decode('{"sequence":1,"at":"2026-01-02T12:00:00+00:00",' + fields + "}")


def test_the_rolling_digest_is_a_hash_over_the_one_before_the_record_and_its_targets():
    """By hand: SHA-256 of 32 zero bytes, 32 bytes of 0x01 and 5 as eight bytes, low byte first."""
    by_hand = hashlib.sha256(bytes(32) + b"\x01" * 32 + b"\x05" + bytes(7)).digest()

    assert chain_digest(EMPTY_DIGEST, b"\x01" * 32, 5) == by_hand
    assert chain_digest(EMPTY_DIGEST, b"\x01" * 32, 4) != by_hand


def test_a_line_cut_anywhere_is_refused():
    line = encode(Event(sequence=1, at=NOON, record=update()))

    with pytest.raises(ValueError, match=r"Expecting|Unterminated|delimiter"):
        decode(line[:-1])


def test_every_reason_belongs_to_one_outcome():
    assert set(OUTCOME_OF) == set(Reason)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (Reason.BUDGET_REACHED, OutcomeKind.COMPLETED),
        (Reason.NO_UPDATES, OutcomeKind.STOPPED),
        (Reason.DISK, OutcomeKind.LIMITED),
        (Reason.HUNG, OutcomeKind.LOST),
        (Reason.CRASHED, OutcomeKind.FAILED),
        (Reason.DEADLINE, OutcomeKind.CANCELLED),
    ],
)
def test_the_outcome_follows_from_the_reason(reason, kind):
    assert Outcome(reason=reason, detail="").kind == kind
