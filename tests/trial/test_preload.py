"""What the real template loads is fit to be forked: see test_warm.py, where it is."""

from __future__ import annotations

import json
import sys
import threading

import pytest

from sweeper.training.options import ModelOptions
from sweeper.trial import preload
from sweeper.trial.preload import load_architecture, why_unfit

MODULE = "transformers.models.gpt_neo.modeling_gpt_neo"


def test_a_models_module_is_found_from_its_configuration_alone(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt_neo"}))

    load_architecture(ModelOptions(path=str(tmp_path)))

    assert MODULE in sys.modules


@pytest.mark.parametrize("config", ["{", "{}", '{"model_type": "no_such_model"}'])
def test_a_configuration_that_says_nothing_is_left_to_the_trial(tmp_path, config):
    (tmp_path / "config.json").write_text(config)

    load_architecture(ModelOptions(path=str(tmp_path)))


def test_a_model_that_is_not_on_this_host_is_left_to_the_trial():
    load_architecture(ModelOptions(path="nobody/nothing"))


def test_a_process_with_threads_is_unfit():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    why = why_unfit()
    done.set()
    thread.join()

    assert why.startswith("loading its libraries left ")
    assert "python" in why or "pytest" in why


def test_a_process_that_has_opened_the_driver_is_unfit(tmp_path, monkeypatch):
    """As CUDA does when anything asks it what there is; a fork could not use a GPU then."""
    device = tmp_path / "nvidiactl"
    device.touch()
    monkeypatch.setattr(preload, "_THREADS", tmp_path / "threads")
    (tmp_path / "threads" / "1").mkdir(parents=True)
    monkeypatch.setattr(preload, "_DRIVER", str(tmp_path / "nvidia"))
    before = why_unfit()

    with device.open():
        during = why_unfit()

    assert (before, during) == (None, "loading its libraries put a GPU to use")
