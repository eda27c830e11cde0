"""What a hub's refusal means, in one sentence and with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

_REFUSALS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    (
        (GatedRepoError,),
        "the model is gated and this account may not read it",
        "Accept its terms on the hub and set HF_TOKEN.",
    ),
    (
        (RevisionNotFoundError,),
        "the model has no such revision",
        "Check model.revision.",
    ),
    (
        (RepositoryNotFoundError,),
        "the hub has no such model, or it is private",
        "Check model.path; it may have been renamed. For a private model set HF_TOKEN.",
    ),
    (
        (LocalEntryNotFoundError, OfflineModeIsEnabled),
        "the hub cannot be reached, and its cache does not have the whole model",
        "Unset HF_HUB_OFFLINE, or set HF_HOME to a cache that has the model.",
    ),
    (
        (EntryNotFoundError,),
        "the hub's model lacks a file that a model needs",
        "Check that it is a transformers model with weights.",
    ),
    (
        (HFValidationError,),
        "this is neither a folder nor a hub id",
        "Write a hub id as owner/name.",
    ),
)
"""The most special first: some of these are kinds of others."""


def refusal(error: BaseException) -> tuple[str, str] | None:
    """Returns what the hub refused and what to do; None when no refusal is behind the error.

    transformers wraps what the hub's client raises, so the chain of causes is searched.
    """
    causes = list(_causes(error))
    for kinds, what, hint in _REFUSALS:
        if any(isinstance(cause, kinds) for cause in causes):
            return what, hint
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
