"""The model's tokenizer: found, loaded and given a typed face."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from sweeper.data.identity import model_digest
from sweeper.data.record import JsonValue
from sweeper.data.request import ModelSource
from sweeper.errors import Fault, ModelError

_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)

_REFUSALS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    (
        (GatedRepoError,),
        "the model is gated and this account may not read it",
        "Accept its terms on the hub and set HF_TOKEN",
    ),
    ((RevisionNotFoundError,), "the model has no such revision", "Check model.revision"),
    (
        (RepositoryNotFoundError,),
        "the hub has no such model, or it is private, and no such folder is here",
        "Check model.path; for a private model set HF_TOKEN",
    ),
    (
        (LocalEntryNotFoundError, OfflineModeIsEnabled),
        "there is no such folder, and the hub cannot be reached nor its cache serve the model",
        "Check model.path; unset HF_HUB_OFFLINE, or set HF_HOME to a cache that has the model",
    ),
    (
        (EntryNotFoundError,),
        "the hub's model has no config.json",
        "Check that it is a transformers model",
    ),
    (
        (HFValidationError,),
        "this is neither a folder nor a hub id",
        "Write a hub id as org/name",
    ),
)
"""What each refusal of the hub means, the most special first."""

_OF_THE_LOADING = frozenset({"is_local", "local_files_only", "name_or_path", "_name_or_path"})
"""Settings that transformers notes when it loads: offline or not, from a folder or from a hub."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """Which model was meant.

    Attributes:
        digest: SHA-256 over a folder's files, or the commit of a hub id.
        commit: The commit of a hub id; None for a folder.
    """

    digest: str
    commit: str | None


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What this room needs of a tokenizer. Padding and truncation are never used."""

    wrapped: PreTrainedTokenizerBase

    def save(self, folder: Path) -> None:
        """Writes the tokenizer, its chat template included, into a new folder.

        The same tokenizer gives the same files, however and from where it was loaded.
        """
        self.wrapped.save_pretrained(folder)
        config = folder / "tokenizer_config.json"
        settings = json.loads(config.read_text(encoding="utf-8"))
        kept = {name: value for name, value in settings.items() if name not in _OF_THE_LOADING}
        config.write_text(json.dumps(kept, indent=2, sort_keys=True), encoding="utf-8")

    def template_parameters(self) -> frozenset[str]:
        """Returns the names that rendering takes for itself, so that no template can have them."""
        return frozenset(inspect.signature(self.wrapped.apply_chat_template).parameters)

    def ids(self, text: str) -> list[int]:
        """Returns the tokens of a text, nothing added."""
        encoded = self.wrapped(text, add_special_tokens=False, verbose=False)
        return [int(token) for token in encoded["input_ids"]]

    def leading(self) -> tuple[int, ...]:
        """Returns the tokens the tokenizer itself puts before a text, such as its BOS."""
        probe = "a"
        bare = self.ids(probe)
        full = [int(token) for token in self.wrapped(probe, verbose=False)["input_ids"]]
        if not bare:
            return tuple(full[:1]) if full[:1] == [self.wrapped.bos_token_id] else ()
        starts = range(len(full) - len(bare) + 1)
        start = next((at for at in starts if full[at : at + len(bare)] == bare), 0)
        return tuple(full[:start])

    def eos_token_id(self) -> int | None:
        """Returns the end token, where the tokenizer has one."""
        token = self.wrapped.eos_token_id
        return None if token is None else int(token)

    def pad_token_id(self) -> int:
        """Returns the padding token; 0 when there is none."""
        token = self.wrapped.pad_token_id
        return 0 if token is None else int(token)

    def has_template(self) -> bool:
        """Returns whether there is a chat template."""
        return bool(self.wrapped.chat_template)

    def template_text(self) -> str:
        """Returns the chat template, all of them if there are several."""
        template = self.wrapped.chat_template
        return "\n".join(template.values()) if isinstance(template, dict) else str(template)

    def added_tokens(self) -> tuple[str, ...]:
        """Returns the texts of special and other added tokens that are no space, longest first."""
        added = self.wrapped.added_tokens_decoder.values()
        texts = {token.content for token in added if token.content.strip()}
        return tuple(sorted(texts, key=lambda text: (-len(text), text)))

    def render(
        self,
        messages: Sequence[Mapping[str, JsonValue]],
        *,
        tools: Sequence[JsonValue],
        generation_prompt: bool,
        arguments: Mapping[str, JsonValue],
    ) -> str:
        """Returns the conversation as the chat template writes it.

        Raises:
            Exception: Whatever the template's own code raises.
        """
        apply: Callable[..., object] = self.wrapped.apply_chat_template
        text = apply(
            list(messages),
            tools=list(tools) or None,
            tokenize=False,
            add_generation_prompt=generation_prompt,
            **arguments,
        )
        return str(text)


def load_tokenizer(model: ModelSource, template: str | None) -> tuple[Tokenizer, ModelIdentity]:
    """Returns the tokenizer of a model, with `template` in place of its own if given.

    Raises:
        ModelError: There is no such model, it has no tokenizer, or it may not be fetched.
    """
    identity = _identity(model)
    try:
        wrapped = AutoTokenizer.from_pretrained(
            model.path,
            revision=identity.commit or model.revision,
            trust_remote_code=model.trust_remote_code,
        )
    except Exception as error:  # the tokenizers library raises bare Exception on a broken file
        raise ModelError(
            Fault(
                what="the tokenizer cannot be loaded",
                where=_name(model),
                got=f"{type(error).__name__}: {_first_line(error)}",
                hint="Save it again with save_pretrained, or set model.trust_remote_code if it "
                "comes with code that you trust"
                if "trust_remote_code" in str(error)
                else "Save it again with save_pretrained",
            )
        ) from error
    if template is not None:
        wrapped.chat_template = template
    return Tokenizer(wrapped), identity


def _identity(model: ModelSource) -> ModelIdentity:
    folder = Path(model.path)
    if folder.is_dir():
        _check_tokenizer_files(folder)
        return ModelIdentity(digest=model_digest(folder), commit=None)
    if folder.is_absolute() or model.path.startswith(("~", ".")) or model.path.count("/") > 1:
        what = "the model is a file, not a folder" if folder.is_file() else "no such model folder"
        hint = "Give the folder that save_pretrained wrote, or a hub id such as org/name"
        raise ModelError(Fault(what=what, where="model.path", got=model.path, hint=hint))
    commit = _commit(model)
    return ModelIdentity(digest=commit, commit=commit)


def _check_tokenizer_files(folder: Path) -> None:
    if any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return
    names = sorted(entry.name for entry in folder.iterdir())[:8]
    raise ModelError(
        Fault(
            what="the model folder has no tokenizer",
            where=str(folder),
            got=", ".join(names) or "an empty folder",
            expected="tokenizer.json or another tokenizer file",
            hint="Save the tokenizer into it: tokenizer.save_pretrained(folder)",
        )
    )


def _commit(model: ModelSource) -> str:
    """Returns the commit that a hub id's revision stands for, from the cache when offline."""
    try:
        file = huggingface_hub.hf_hub_download(model.path, "config.json", revision=model.revision)
    except (HfHubHTTPError, EntryNotFoundError, OfflineModeIsEnabled, HFValidationError) as error:
        what, hint = _refusal(error)
        raise ModelError(Fault(what=what, where="model.path", got=_name(model), hint=hint)) from (
            error
        )
    return Path(file).parent.name


def _refusal(error: Exception) -> tuple[str, str]:
    """Returns what the hub said, and what to do."""
    for kinds, what, hint in _REFUSALS:
        if isinstance(error, kinds):
            return what, hint
    return f"the hub refuses: {_first_line(error)}", "Try again later"


def _name(model: ModelSource) -> str:
    return model.path if Path(model.path).is_dir() else f"{model.path}, revision {model.revision}"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "no message"
