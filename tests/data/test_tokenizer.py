"""Finding the tokenizer: folders, hub ids, and a clear word when there is none."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from transformers import AutoTokenizer

from sweeper.data.identity import model_digest
from sweeper.data.request import ModelSource
from sweeper.data.tokenizer import Tokenizer, load_tokenizer
from sweeper.errors import Fault, ModelError

ModelOf = Callable[..., str]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def refused(path: str, **options: object) -> Fault:
    with pytest.raises(ModelError) as caught:
        load_tokenizer(ModelSource(path=path, **options), None)  # type: ignore[arg-type]
    (fault,) = caught.value.faults
    return fault


def test_a_folder_is_known_by_the_digest_of_its_files(model_of: ModelOf) -> None:
    folder = model_of()
    tokenizer, identity = load_tokenizer(ModelSource(path=folder), None)
    assert tokenizer.wrapped.decode(tokenizer.ids("abc")) == "abc"
    assert identity.digest == model_digest(Path(folder))
    assert identity.commit is None


def test_a_template_of_the_study_takes_the_place_of_the_tokenizers(
    model_of: ModelOf, tmp_path: Path
) -> None:
    tokenizer, _ = load_tokenizer(ModelSource(path=model_of(template="theirs")), "ours")
    tokenizer.save(tmp_path / "saved")
    assert tokenizer.template_text() == "ours"
    assert (tmp_path / "saved" / "chat_template.jinja").read_text() == "ours"


def test_the_saved_files_are_the_same_online_and_offline(model_of: ModelOf, tmp_path: Path) -> None:
    folder = model_of()
    tokenizer, _ = load_tokenizer(ModelSource(path=folder), None)
    for name, offline in (("online", False), ("offline", True)):
        wrapped = AutoTokenizer.from_pretrained(folder, local_files_only=offline)
        replace(tokenizer, wrapped=wrapped).save(tmp_path / name)

    saved = [
        (tmp_path / name / "tokenizer_config.json").read_text() for name in ("online", "offline")
    ]
    assert saved[0] == saved[1]
    assert "local" not in saved[0]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    fault = refused(str(tmp_path / "nothing"))
    assert fault.what == "no such model folder"
    assert fault.got == str(tmp_path / "nothing")


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert refused(str(tmp_path / "model.safetensors")).what == "the model is a file, not a folder"


def test_a_folder_without_a_tokenizer_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    fault = refused(str(tmp_path))
    assert fault.what == "the model folder has no tokenizer"
    assert fault.got == "config.json, model.safetensors"


def test_a_broken_tokenizer_is_refused_in_one_sentence(model_of: ModelOf) -> None:
    folder = model_of()
    Path(folder, "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "No"}}')
    fault = refused(folder)
    assert fault.what == "the tokenizer cannot be loaded"
    assert fault.where == folder
    assert fault.got is not None
    assert "\n" not in fault.got


def test_code_that_comes_with_a_tokenizer_is_not_run_unasked(model_of: ModelOf) -> None:
    folder = Path(model_of())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["auto_map"] = {"AutoTokenizer": ["theirs.Theirs", None]}
    config["tokenizer_class"] = "Theirs"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "theirs.py").write_text("raise SystemExit('this code was run')")
    fault = refused(str(folder))
    assert fault.what == "the tokenizer cannot be loaded"
    assert fault.hint is not None
    assert "model.trust_remote_code" in fault.hint


def test_leading_tokens_are_what_the_tokenizer_puts_before_a_text(
    tokenizer_of: Callable[..., Tokenizer],
) -> None:
    with_bos = tokenizer_of(adds_bos=True)
    assert with_bos.leading() == (with_bos.wrapped.bos_token_id,)
    assert tokenizer_of().leading() == ()


def test_the_padding_token_is_zero_where_there_is_none(
    tokenizer_of: Callable[..., Tokenizer],
) -> None:
    assert tokenizer_of().pad_token_id() == 0
    assert tokenizer_of(pad="<|im_end|>").pad_token_id() == 259


PROBE = """
import json, sys
from sweeper.data.request import ModelSource
from sweeper.data.tokenizer import load_tokenizer
from sweeper.errors import ModelError
answers = {}
for path in sys.argv[1:]:
    try:
        tokenizer, identity = load_tokenizer(ModelSource(path=path), None)
        text = tokenizer.wrapped.decode(tokenizer.ids("abc"))
        answers[path] = [identity.digest, identity.commit, text]
    except ModelError as error:
        answers[path] = [fault.what for fault in error.faults]
print(json.dumps(answers))
"""

REFUSALS = {
    "org/gated": (403, "GatedRepo", "the model is gated and this account may not read it"),
    "org/other-revision": (404, "RevisionNotFound", "the model has no such revision"),
    "org/private": (
        401,
        "RepoNotFound",
        "the hub has no such model, or it is private, and no such folder is here",
    ),
    "org/no-model": (404, "EntryNotFound", "the hub's model has no config.json"),
}


class RefusingHub(BaseHTTPRequestHandler):
    """A hub on this host that refuses each model in its own way."""

    def do_GET(self) -> None:
        self.do_HEAD()

    def do_HEAD(self) -> None:
        name = next(name for name in REFUSALS if self.path.startswith(f"/{name}/"))
        status, code, _ = REFUSALS[name]
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "no")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def refusals(
    run_child: Callable[..., CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[str]]]:
    """What is said of each model that the hub refuses."""
    server = HTTPServer(("127.0.0.1", 0), RefusingHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_CACHE": str(tmp_path_factory.mktemp("empty")),
        "NO_PROXY": "127.0.0.1",
    }
    yield json.loads(run_child("-c", PROBE, *REFUSALS, **environment).stdout)
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REFUSALS))
def test_what_the_hub_refuses_is_said_in_one_sentence(
    refusals: dict[str, list[str]], name: str
) -> None:
    assert refusals[name] == [REFUSALS[name][2]]


@pytest.mark.slow
def test_without_a_network_a_hub_id_is_resolved_from_the_cache_or_refused(
    run_child: Callable[..., CompletedProcess[str]],
    build_model: Callable[..., Path],
    tmp_path: Path,
) -> None:
    repository = tmp_path / "cache" / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    build_model(repository / "snapshots" / COMMIT)
    child = run_child("-c", PROBE, "org/tiny", "org/other", HF_HUB_CACHE=str(tmp_path / "cache"))
    assert json.loads(child.stdout) == {
        "org/tiny": [COMMIT, COMMIT, "abc"],
        "org/other": [
            "there is no such folder, and the hub cannot be reached nor its cache serve the model"
        ],
    }


def test_what_is_neither_a_folder_nor_a_hub_id_is_refused() -> None:
    assert refused("no spaces allowed").what == "this is neither a folder nor a hub id"
