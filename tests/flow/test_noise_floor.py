"""The baseline run twice: equal to the last bit, unless something random is planted in it."""

import pytest

import sweeper

pytestmark = pytest.mark.slow

SMALL = {"seeds": "[0]", "budget": 200, "every": 100}

UNORDERED = """\
import os, sys

if any(word.startswith("sweeper.trial") for word in sys.orig_argv):
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    @torch.no_grad()
    def as_if_summed_in_another_order(optimizer, _arguments, _options):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.mul_(1 + os.urandom(1)[0] * 2.0**-20)

    register_optimizer_step_post_hook(as_if_summed_in_another_order)
"""
"""Stands for a kernel whose sums depend on timing: no seed reaches it, no environment tells it."""


@pytest.fixture
def study(laboratory):
    """Returns a function that sets up a study of the baseline, its repeat, and `double`."""

    def on(slots):
        made = laboratory(**SMALL, slots=slots)
        text = made.study.read_text()
        made.study.write_text(f"{text}selection: {{noise_floor: true}}\n")
        return made

    return on


def losses_of(study, trial):
    return sweeper.updates(study.study, trial)["loss"].tolist()


def test_two_runs_of_the_baseline_agree_to_the_last_bit(study):
    study = study("[cpu, cpu]")
    study.sweeper("run", str(study.study))

    floor = sweeper.compare(study.study).noise_floor
    slots = sweeper.attempts(study.study).set_index("trial")["slot"]
    assert (floor.nats, floor.bit_equal, floor.weights_agree) == (0.0, True, True)
    assert floor.windows_compared == len(losses_of(study, "baseline/0")) > 1
    assert losses_of(study, "baseline/0~repeat") == losses_of(study, "baseline/0")
    assert slots["baseline/0~repeat"] != slots["baseline/0"]
    assert sweeper.trials(study.study)["trial"].tolist() == [
        "baseline/0",
        "baseline/0~repeat",
        "double/0",
    ]
    assert sweeper.compare(study.study).baseline.n_planned == 1


def test_planted_nondeterminism_gives_a_floor_above_0(study, tmp_path, monkeypatch):
    study = study("[cpu]")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(UNORDERED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))

    study.sweeper("run", str(study.study))

    floor = sweeper.compare(study.study).noise_floor
    assert floor.nats > 0
    assert floor.nats == abs(floor.repeat_loss - floor.baseline_loss)
    assert (floor.bit_equal, floor.weights_agree) == (False, False)
    assert floor.first_differing_window == 2, "the first one's loss comes before any update"
