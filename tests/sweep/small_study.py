"""A study of a few cells that needs no model, its plan, and a coordinator process to kill.

Usage as a process: small_study.py FOLDER. It runs the study in the folder, by the behaviours in
FOLDER/behaviours.json.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

from sweeper.report.comparison import evidence
from sweeper.study.arms import plan_arms
from sweeper.study.exposure import ExposurePlan
from sweeper.study.fingerprint import fingerprint
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.plan import Plan, plan_cells
from sweeper.study.spec import PlannedExposure
from sweeper.study.storage import database_url, variables
from sweeper.sweep.coordinator import one_of_several, only_coordinator
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.running import Onlookers, RunChoices, run_plan, take_up
from sweeper.sweep.stop_request import StopRequest, listening
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.slots import Slot

FAKE_TRIAL = Path(__file__).with_name("fake_trial.py")
BUDGET = 40

YAML = """\
name: small
question: {{kind: which, text: Which rate?}}
justification: Nobody has looked.
compare: {{key: training.learning_rate, multiply: {arms}}}
seeds: {seeds}
budget: {{target_tokens: 40}}
model: {{path: models/none}}
tune: lora
data: {{train: {{path: t.jsonl}}, validation: {{path: v.jsonl}}, max_length: 16}}
training: {{learning_rate: {rate}, schedule: {{kind: constant}}, records_per_update: 1}}
stop: {{study: {rule}}}
selection: {{noise_floor: {noise_floor}, extensions: {extensions}}}
run: {{micro_batch: 1, max_resumes: 1, storage: "{storage}"}}
"""


class SmallStudy:
    """A study file in a folder, and what its trials do."""

    def __init__(
        self,
        folder,
        *,
        arms="{half: 0.5, baseline: 1}",
        seeds="[0]",
        rate="2e-4",
        rule="baseline_failed",
        noise_floor="false",
        extensions="0",
        storage="sqlite",
    ):
        self.place = Path(folder)
        self.place.mkdir(parents=True, exist_ok=True)
        file = self.place / "small.yaml"
        if not file.exists():
            settings = {"arms": arms, "seeds": seeds, "rate": rate, "rule": rule}
            settings |= {"noise_floor": noise_floor, "storage": storage}
            settings |= {"extensions": extensions}
            file.write_text(YAML.format(**settings))
        self.file = load_study(file)
        self.plan = plan_of(self.file)
        self.folder = StudyFolder.beside(file, "small")
        self.url = database_url(self.file.study.run.storage, self.folder, os.environ)

    def behave(self, behaviours):
        """Says what each cell's attempts do; cells left out complete."""
        (self.place / "behaviours.json").write_text(json.dumps(behaviours))

    def run(
        self,
        *,
        slots=1,
        device=None,
        observer=None,
        stop=None,
        reverse=False,
        replace=False,
        elsewhere=False,
        joins=False,
        lease=None,
        launcher=None,
    ):
        """Runs the study as `run_study` does, with the plan given instead of prepared."""
        watching = Onlookers(observer=observer or SilentObserver(), stop=stop or StopRequest())
        if not (self.place / "behaviours.json").exists():
            self.behave({})
        choices = RunChoices(
            slots=_slots(slots, device),
            launcher=launcher
            or LocalLauncher(
                logs=self.folder.logs,
                withheld=variables(self.file.study.run.storage),
                trial_command=(
                    sys.executable,
                    str(FAKE_TRIAL),
                    str(self.place / "behaviours.json"),
                ),
            ),
            reverse_claims=reverse,
            resume_elsewhere=elsewhere,
            joins=joins,
            evidence=partial(evidence, study=self.file.study),
            lease=lease or LeaseTerms(),
        )
        with (one_of_several if joins else only_coordinator)(self.folder) as owner:
            take_up(
                self.file,
                self.folder,
                owner,
                replace=replace,
                joins=joins,
                lease=lease,
                observer=watching.observer,
            )
            return run_plan(self.file, self.plan, owner, watching=watching, choices=choices)


def _slots(slots, device):
    """Returns so many slots, or those that are given."""
    if isinstance(slots, int):
        return tuple(Slot(name=f"cpu {n}", device=device) for n in range(slots))
    return tuple(slots)


def plan_of(study_file):
    study = study_file.study
    arms = plan_arms(study)
    protocol = {
        "training": {"learning_rate": study.learning_rate},
        "stop": study.stop.study,
        "selection": {"checkpoint": study.selection.checkpoint},
    }
    return Plan(
        name=study.name,
        fingerprint=fingerprint(protocol),
        protocol=protocol,
        cells=plan_cells(study, arms),
        arms=arms,
        exposures={seed: _exposure(seed) for seed in study.seeds},
        warnings=(),
        budget_target_tokens=BUDGET,
        model=study.model,
    )


def _exposure(seed):
    return ExposurePlan(
        seed=seed,
        planned=PlannedExposure(
            records=4,
            target_tokens=BUDGET,
            input_tokens=80,
            windows=4,
            last_window_target_tokens=10,
            record_digest="r4",
        ),
        epochs=1,
        fewest_target_tokens=10,
        most_target_tokens=10,
        last_window_records=1,
        counter="updates",
        warmup=0,
        warmup_share=0.0,
        evaluations=2,
    )


def main():
    with listening(StopRequest()) as stop:
        return SmallStudy(sys.argv[1]).run(stop=stop).status


if __name__ == "__main__":
    sys.exit(main())
