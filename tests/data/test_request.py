"""The request to the preparing child."""

from __future__ import annotations

from pathlib import Path

from sweeper.data.options import DataOptions, Source, SplitShares
from sweeper.data.request import ModelSource, PrepareRequest


def request(**data: object) -> PrepareRequest:
    options = {
        "source": Source(path="/data/all.jsonl"),
        "split": SplitShares(validation=0.1),
        "max_length": 64,
        "template_arguments": {"enable_thinking": False, "date": None, "n": 1},
    }
    return PrepareRequest(
        model=ModelSource(path="/models/tiny"),
        data=DataOptions(**(options | data)),  # type: ignore[arg-type]
    )


def test_a_request_comes_back_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(request().to_json())
    read = PrepareRequest.read(tmp_path / "request.json")
    assert read == request()
    assert read.digest() == request().digest()


def test_the_digest_follows_every_setting() -> None:
    assert request(max_length=65).digest() != request().digest()
    assert request(supervise="all").digest() != request().digest()
