"""A window and an evaluation as a trial reports them; a test says what matters to it."""

from sweeper.records import Evaluation, Update


def update(**changes):
    """The first window, of ten target tokens."""
    usual = {
        "window": 1,
        "updates": 1,
        "first_record": 0,
        "records": 2,
        "record_digest": "d1",
        "target_tokens": 10,
        "target_tokens_read": 10,
        "target_tokens_applied": 10,
        "input_tokens": 30,
        "padding_tokens": 4,
        "learning_rate": 0.0002,
        "loss": 2.5,
        "gradient_norm": 0.75,
        "clipped": False,
        "ran": True,
        "skip": None,
        "seconds": 0.25,
        "peak_memory_bytes": 1024,
    }
    return Update(**usual | changes)


def evaluation(**changes):
    """The evaluation before the first window."""
    usual = {
        "split": "validation",
        "index": 0,
        "window": 0,
        "target_tokens_read": 0,
        "updates": 0,
        "loss": 3.0,
        "target_tokens": 40,
        "records": 8,
        "set_digest": "v",
        "dtype": "float32",
        "micro_batch": 4,
        "seconds": 0.5,
    }
    return Evaluation(**usual | changes)
