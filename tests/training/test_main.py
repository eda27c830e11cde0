"""`python -m sweeper.training`: the plan's way to look at a model."""

import json
import subprocess
import sys

import pytest

from sweeper.errors import ModelError, from_plain
from sweeper.training.__main__ import main
from sweeper.training.options import LoraOptions, ModelOptions
from sweeper.training.report import InspectionRequest, ModelReport


def write_request(folder, checkpoint, targets):
    request = InspectionRequest(
        model=ModelOptions(path=str(checkpoint)), tune="lora", lora=LoraOptions(targets=targets)
    )
    (folder / "request.json").write_text(request.model_dump_json())
    return folder / "request.json"


def test_the_report_is_written(checkpoint, tmp_path):
    request = write_request(tmp_path, checkpoint, ("q_proj",))
    assert main(request, tmp_path / "model.json") == 0
    assert len(ModelReport.read(tmp_path / "model.json").adapted_modules) == 2
    assert not (tmp_path / ".model.json.partial").exists()


def test_the_users_mistakes_go_to_stdout_with_status_2(checkpoint, tmp_path, capsys):
    request = write_request(tmp_path, checkpoint, ("vproj", "FAKE"))
    assert main(request, tmp_path / "model.json") == 2
    error = from_plain(json.loads(capsys.readouterr().out))
    assert isinstance(error, ModelError)
    assert [fault.got for fault in error.faults] == ["vproj", "FAKE"]
    assert not (tmp_path / "model.json").exists()


@pytest.mark.slow
def test_as_a_process_it_keeps_stdout_for_the_faults(checkpoint, tmp_path):
    request = write_request(tmp_path, checkpoint, ("vproj",))
    command = [sys.executable, "-m", "sweeper.training", request, tmp_path / "model.json"]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert child.returncode == 2, child.stderr
    assert json.loads(child.stdout)["error"] == "ModelError"
