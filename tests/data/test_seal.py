"""Out of reach: nothing of the test records leaves the preparing child, and nobody else looks.

The `open` audit hook sees opens made by Python. Opens in native code are covered by moving the
file away, and by strace where it may be used.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from sweeper.data.manifest import Manifest, changed_sources
from sweeper.data.options import DataOptions, SealedSource, Source, SplitShares
from sweeper.data.preparing import prepare
from sweeper.data.request import ModelSource, PrepareRequest
from sweeper.data.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

Child = Callable[..., CompletedProcess[str]]
Write = Callable[..., str]

HOOKED = """
import sys
opened = open(sys.argv[1], "w")
sys.addaudithook(lambda event, args: event == "open" and print(args[0], file=opened, flush=True))
"""
PREPARE = (
    HOOKED
    + """
from sweeper.data.__main__ import main
sys.exit(main(sys.argv[2:]))
"""
)
CHECK = """
from pathlib import Path
from sweeper.data.manifest import Manifest, changed_sources
sys.exit(len(changed_sources(Manifest.read(Path(sys.argv[2])))))
"""


def pair(word: str, number: int) -> dict[str, str]:
    return {"prompt": f"{word} question {number}", "answer": f"{word} answer {number}"}


def holding(folder: Path, needle: bytes) -> list[str]:
    """Returns the files in a folder whose bytes contain the needle."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [str(path.relative_to(folder)) for path in files if needle in path.read_bytes()]


def as_tokens(tokenizer: Tokenizer, text: str) -> bytes:
    return np.array(tokenizer.ids(text), dtype=np.int32).tobytes()


@pytest.fixture
def request_file(tmp_path: Path, model_of: Callable[..., str], write_jsonl: Write) -> Path:
    data = DataOptions(
        train=Source(path=write_jsonl("train.jsonl", *(pair("open", n) for n in range(5)))),
        validation=Source(path=write_jsonl("validation.jsonl", pair("held", 1))),
        test=SealedSource(path=write_jsonl("test.jsonl", *(pair("sealed", n) for n in range(5)))),
        max_length=64,
    )
    request = PrepareRequest(model=ModelSource(path=model_of()), data=data)
    file = tmp_path / "asked.json"
    file.write_text(request.to_json())
    return file


@pytest.fixture
def prepared(request_file: Path, tmp_path: Path) -> Path:
    """The prepared folder, made in this process."""
    prepare(PrepareRequest.read(request_file), tmp_path / "out")
    return tmp_path / "out"


def test_preparing_reads_the_test_file_and_leaves_nothing_of_it(
    run_child: Child, request_file: Path, tmp_path: Path, tokenizer_of: Callable[..., Tokenizer]
) -> None:
    opened, out = tmp_path / "opened.txt", tmp_path / "out"
    done = run_child("-c", PREPARE, str(opened), str(request_file), str(out))
    assert done.returncode == 0
    assert str(tmp_path / "test.jsonl") in opened.read_text().splitlines()
    tokenizer = tokenizer_of()
    assert holding(out, b"sealed question") == holding(out, b"sealed answer") == []
    assert holding(out, as_tokens(tokenizer, "sealed answer")) == []
    assert "sealed answer" not in done.stdout + done.stderr
    # What is looked for is found where it may be.
    assert holding(out, as_tokens(tokenizer, "open answer")) == ["train/token_ids.npy"]


def test_later_checks_open_neither_the_test_file_nor_miss_it(
    prepared: Path, run_child: Child, tmp_path: Path
) -> None:
    train, opened = tmp_path / "train.jsonl", tmp_path / "opened later.txt"
    train.touch()  # a new time makes the check read the contents
    (tmp_path / "validation.jsonl").touch()
    (tmp_path / "test.jsonl").rename(tmp_path / "elsewhere.jsonl")
    done = run_child("-c", HOOKED + CHECK, str(opened), str(prepared))
    assert done.returncode == 0
    names = opened.read_text().splitlines()
    assert str(train) in names
    assert str(tmp_path / "test.jsonl") not in names


def test_a_source_that_holds_test_records_is_not_missed(
    tmp_path: Path, model_of: Callable[..., str], write_jsonl: Write
) -> None:
    source = write_jsonl("all.jsonl", *(pair("any", n) for n in range(60)))
    shares = SplitShares(validation=0.2, test=0.2)
    data = DataOptions(source=Source(path=source), split=shares, max_length=64)
    request = PrepareRequest(model=ModelSource(path=model_of()), data=data)
    prepare(request, tmp_path / "out")
    Path(source).unlink()
    assert changed_sources(Manifest.read(tmp_path / "out")) == ()


def test_no_system_call_of_a_later_check_names_the_test_file(
    prepared: Path, tmp_path: Path
) -> None:
    strace = shutil.which("strace")
    trace = tmp_path / "trace.txt"
    command = [sys.executable, "-c", "import sys" + CHECK, "", str(prepared)]
    if strace is None:
        pytest.skip("strace is not installed")
    done = subprocess.run(
        [strace, "-f", "-e", "trace=%file", "-o", str(trace), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "ptrace" in done.stderr and done.returncode:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0
    assert "train.jsonl" in trace.read_text()
    assert "test.jsonl" not in trace.read_text()
