"""Settings of the data room: where records are and how they become tokens. Torch-free."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sweeper.options import Options, Positive, Share

FormatName = Literal["auto", "prompt_answer", "chat", "text"]


class FieldNames(Options):
    """Names of the user's columns, where they differ from ours.

    Attributes:
        messages: None: `messages`, or `conversations` in files that have only that.
    """

    prompt: str = "prompt"
    answer: str = "answer"
    messages: str | None = None
    text: str = "text"


class Source(Options):
    """Where records come from: a file, or a data set on a hub."""

    path: str | None = None
    hub: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> Source:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give either `path` or `hub`")
        if self.path is not None and (self.config or self.split or self.revision):
            raise ValueError("`config`, `split` and `revision` belong to `hub`")
        return self


class SealedSource(Options):
    """The test split: a file or data set, or only the digest of its records."""

    path: str | None = None
    hub: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _has_one_place(self) -> SealedSource:
        if sum(place is not None for place in (self.path, self.hub, self.sha256)) != 1:
            raise ValueError("give one of `path`, `hub` and `sha256`")
        return self


class RetentionSource(Source):
    """Earlier abilities, with a format and column names of their own."""

    format: FormatName = "auto"
    fields: FieldNames = FieldNames()


class SplitShares(Options):
    """How one source is divided by a hash of the normalised prompt."""

    validation: Share
    test: Share = 0.0
    group: str | None = None

    @model_validator(mode="after")
    def _leaves_training_records(self) -> SplitShares:
        if self.validation == 0:
            raise ValueError("`validation` must be above zero: selection reads it")
        if self.validation + self.test >= 1:
            raise ValueError("`validation` and `test` together must leave records for training")
        return self


class Packing(Options):
    """Records laid end to end, in the order of the stream, in rows of at most `row_tokens`."""

    row_tokens: Positive


class DataOptions(Options):
    """Everything that decides which tokens are read and which are supervised."""

    train: Source | None = None
    validation: Source | None = None
    source: Source | None = None
    split: SplitShares | None = None
    test: SealedSource | None = None
    retention: RetentionSource | None = None
    format: FormatName = "auto"
    fields: FieldNames = FieldNames()
    supervise: Literal["answer", "last_answer", "all"] = "answer"
    chat_template: str | None = None
    template_arguments: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    max_length: Positive
    overlong: Literal["drop", "cut", "refuse"] = "drop"
    duplicates: Literal["refuse", "drop_from_train"] = "refuse"
    packing: Packing | None = None
    max_epochs: Positive = 1

    @model_validator(mode="after")
    def _has_train_and_validation(self) -> DataOptions:
        files = self.train is not None and self.validation is not None
        divided = self.source is not None and self.split is not None
        if files and (self.source is None and self.split is None):
            return self
        if divided and self.train is None and self.validation is None:
            if self.test is not None:
                raise ValueError("`test` comes out of `source` here: give its share in `split`")
            return self
        raise ValueError("give `train` and `validation`, or `source` and `split`")
