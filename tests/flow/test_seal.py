"""The test split is out of reach: no process opens it once the data are prepared.

The proof is a whole study run with the test file moved away, an audit hook on `open` in every
process, and strace where it is installed; planted leaks, through Python and through a native
reader, are seen to fail.
"""

import shutil
import subprocess
import sys

import pytest

import sweeper

pytestmark = pytest.mark.slow

SMALL = {
    "seeds": "[0]",
    "arms": "{baseline: 1, double: 2}",
    "budget": 200,
    "every": 100,
    "slots": "[cpu]",
}

HOOK = """\
import os, sys

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith("test.jsonl"):
        descriptor = os.open({log!r}, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, (" ".join(sys.orig_argv) + "\\n").encode())
        os.close(descriptor)

sys.addaudithook(note)
"""

PYTHON_LEAK = """
if any(word.startswith("sweeper.trial") for word in sys.orig_argv):
    import pathlib
    import sweeper.trial.windows as windows
    honest = windows.held_out_sets
    def leaking(*arguments, **more):
        pathlib.Path({test!r}).read_bytes()
        return honest(*arguments, **more)
    windows.held_out_sets = leaking
"""

NATIVE_LEAK = PYTHON_LEAK.replace(
    "pathlib.Path({test!r}).read_bytes()",
    "__import__('pyarrow').memory_map({test!r}, 'r').read()",
)


@pytest.fixture(scope="module")
def prepared_study(tmp_path_factory, tiny_model, set_up):
    """A study that was prepared while every process was watched, and a copy of its folder."""
    place = tmp_path_factory.mktemp("sealed")
    (place / "study" / "site").mkdir(parents=True)
    study = set_up(place / "study", tiny_model, own_data=True, **SMALL)
    hook = HOOK.format(log=str(study.folder / "opened.txt"))
    (study.folder / "site" / "sitecustomize.py").write_text(hook)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(study.folder / "site"))
        study.sweeper("check", str(study.study))
    return study, shutil.copytree(study.folder, place / "kept")


@pytest.fixture
def study(prepared_study):
    """The study right after preparing: its folder is put back as it was then."""
    found, kept = prepared_study
    shutil.rmtree(found.folder)
    shutil.copytree(kept, found.folder)
    return found


@pytest.fixture
def watched(study, monkeypatch):
    """The same, and every process notes in `opened` when it opens the test file."""
    site = study.folder / "site"
    monkeypatch.setenv("PYTHONPATH", str(site))
    return study, study.folder / "opened.txt", site / "sitecustomize.py"


def plant(hook, study, leak):
    text = leak.format(test=str(study.folder / "test.jsonl"))
    hook.write_text(hook.read_text() + text)


def test_after_preparation_a_whole_study_runs_without_the_test_file(watched):
    study, opened, _ = watched
    prepared_by = opened.read_text().splitlines()
    (study.folder / "test.jsonl").rename(study.folder / "away.jsonl")

    study.sweeper("run", str(study.study))
    study.sweeper("compare", str(study.study))

    assert sweeper.trials(study.study)["outcome"].tolist() == ["completed"] * 2
    assert all("sweeper.data" in line for line in prepared_by), "only the preparing child read it"
    assert opened.read_text().splitlines() == prepared_by, "and nobody opened it again"


@pytest.mark.parametrize("leak", [PYTHON_LEAK, NATIVE_LEAK], ids=["python", "native"])
def test_a_planted_leak_fails_when_the_test_file_is_away(watched, leak):
    study, _, hook = watched
    plant(hook, study, leak)
    (study.folder / "test.jsonl").rename(study.folder / "away.jsonl")

    study.sweeper("run", str(study.study), expect=3)

    rows = sweeper.trials(study.study)
    assert rows["status"].tolist() == ["ended", "not_run"]
    assert rows["outcome"].iloc[0] == "failed"
    assert "test.jsonl" in rows["detail"].iloc[0]


def test_the_hook_sees_a_leak_through_python_while_the_file_is_there(watched):
    study, opened, hook = watched
    plant(hook, study, PYTHON_LEAK)

    study.sweeper("run", str(study.study))

    assert any("sweeper.trial" in line for line in opened.read_text().splitlines())


def test_no_token_or_text_of_the_test_split_is_in_the_run_folder(study):
    prompts = [
        line.split('"')[3] for line in (study.folder / "test.jsonl").read_text().splitlines()
    ]
    written = b"".join(file.read_bytes() for file in study.run_folder.rglob("*") if file.is_file())

    assert not [prompt for prompt in prompts if prompt.encode() in written]
    arrays = {file.name for file in (study.run_folder / "prepared").iterdir() if file.is_dir()}
    assert "test" not in arrays


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_strace_sees_no_process_open_the_test_file(study, tmp_path):
    trace = tmp_path / "trace"
    # With --seccomp-bpf other system calls run at full speed.
    command = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-e",
        "trace=open,openat,openat2",
        "-o",
        str(trace),
    ]
    command += [sys.executable, "-m", "sweeper", "run", str(study.study)]

    subprocess.run(command, cwd=study.folder, check=True, timeout=280, capture_output=True)

    opened = trace.read_text(errors="replace")
    assert "validation" in opened, "the trace covers the trial"
    assert "test.jsonl" not in opened
