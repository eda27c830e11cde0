"""Tokens that a model has no place for are refused before anything is trained."""

from __future__ import annotations

import pytest

from sweeper.errors import ModelError
from sweeper.study.fit import check_fit
from sweeper.training.report import ModelReport


def report(*, embedding_rows: int = 10, max_positions: int | None = 512) -> ModelReport:
    return ModelReport(
        parameters=1000,
        trainable_parameters=10,
        adapted_modules=("q_proj",),
        embedding_rows=embedding_rows,
        max_positions=max_positions,
        tied_embeddings=False,
    )


@pytest.mark.parametrize("positions", [512, 513, None])
def test_records_as_long_as_the_positions_fit(load, manifest, positions) -> None:
    check_fit(load().study, manifest, report(max_positions=positions))


def test_both_misfits_are_told_with_both_numbers(load, manifest) -> None:
    with pytest.raises(ModelError) as caught:
        check_fit(load().study, manifest, report(embedding_rows=9, max_positions=511))

    assert str(caught.value).splitlines() == [
        (
            "data.max_length: records may be longer than the model's positions"
            " (got 512; expected at most 511). Lower data.max_length."
        ),
        (
            "model.path: the tokenizer has tokens that the model has no embedding for"
            " (got token ids up"
            " to 9; expected below 9, the rows of the embedding)."
            " Use the tokenizer that belongs to this model."
        ),
    ]
