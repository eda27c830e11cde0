"""What a hub refuses, in one sentence each; the hub is a small server on this host."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from sweeper.training.hub import refusal

COMMIT = "0" * 40
GATED = "the model is gated and this account may not read it"
MISSING = "the hub has no such model, or it is private"
UNREACHABLE = "the hub cannot be reached, and its cache does not have the whole model"
REFUSALS = {
    "org/gated": (403, "GatedRepo", GATED),
    "org/gated-for-all": (401, "GatedRepo", GATED),
    "org/missing": (404, "RepoNotFound", MISSING),
    "org/private": (401, "RepoNotFound", MISSING),
    "org/other-revision": (404, "RevisionNotFound", "the model has no such revision"),
}
LOADED = ("org/model", "org/former-name")
"""A model that is there, and the name that it had before."""

PROBE = """
import json, sys, time, torch
time.sleep = lambda seconds: None  # the hub's client waits between its tries
from sweeper.errors import ModelError
from sweeper.training.model import load_model
from sweeper.training.options import ModelOptions
said = {}
for name in sys.argv[1:]:
    try:
        load_model(ModelOptions(path=name, revision="v1"), device=torch.device("cpu"))
        said[name] = []
    except ModelError as error:
        said[name] = [[f.where, f.what, f.got, f.hint] for f in error.faults]
print(json.dumps(said))
"""


class SmallHub(BaseHTTPRequestHandler):
    """Has one model, knows its former name, and refuses others in ways of their own."""

    folder: Path

    def do_GET(self):
        self.answer(with_body=True)

    def do_HEAD(self):
        self.answer(with_body=False)

    def answer(self, *, with_body):
        name = "/".join(self.path.removeprefix("/api/models").split("/")[1:3])
        file = self.folder / self.path.rpartition("/")[2]
        if name == "org/former-name":
            self.send(307, {"Location": self.path.replace("former-name", "model")})
        elif name in REFUSALS:
            status, code, _ = REFUSALS[name]
            self.send(status, {"X-Error-Code": code, "X-Error-Message": "no"})
        elif file.is_file():
            body = file.read_bytes()
            tag = hashlib.sha256(body).hexdigest()
            self.send(200, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, body, with_body=with_body)
        else:
            self.send(404, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "no"})

    def send(self, status, headers, body=b"", *, with_body=False):
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if with_body else b"")

    def log_message(self, *_):
        pass


def said_of(names, cache, **environment):
    """Returns what a fresh process says of each model."""
    settings = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE, *names],
        env=os.environ | settings | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(child.stdout)


@pytest.fixture(scope="module")
def said(checkpoint, tmp_path_factory):
    """What is said of each model by a process that asks the small hub."""
    handler = type("Hub", (SmallHub,), {"folder": checkpoint})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    names = [*REFUSALS, *LOADED]
    endpoint = f"http://127.0.0.1:{server.server_port}"
    yield said_of(names, tmp_path_factory.mktemp("cache"), HF_ENDPOINT=endpoint)
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REFUSALS))
def test_a_refusal_is_one_sentence(said, name):
    ((where, what, got, _),) = said[name]
    assert (where, what) == ("model.path", REFUSALS[name][2])
    assert got == f"{name} at v1"


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADED)
def test_a_model_is_loaded_by_its_name_and_where_the_hub_tells_the_new_one_by_the_former(
    said, name
):
    assert said[name] == []


@pytest.mark.slow
def test_of_a_missing_model_it_is_said_that_it_may_have_been_renamed(said):
    ((_, _, _, hint),) = said["org/missing"]
    assert "it may have been renamed" in hint


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}]
)
def test_without_a_connection_a_model_must_be_in_the_cache(environment, tmp_path):
    found = said_of(["org/uncached"], tmp_path, **environment)
    ((_, what, _, hint),) = found["org/uncached"]
    assert what == UNREACHABLE
    assert hint == "Unset HF_HUB_OFFLINE, or set HF_HOME to a cache that has the model."


def caused_by(cause):
    error = OSError("wrapped")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (GatedRepoError, GATED),
        (RepositoryNotFoundError, MISSING),
        (LocalEntryNotFoundError, UNREACHABLE),
        (OfflineModeIsEnabled, UNREACHABLE),
    ],
)
def test_a_refusal_is_found_behind_what_wraps_it(kind, what):
    cause = kind.__new__(kind)
    assert refusal(caused_by(cause))[0] == what


def test_an_error_that_is_no_refusal_is_none():
    assert refusal(caused_by(ValueError("cut short"))) is None
