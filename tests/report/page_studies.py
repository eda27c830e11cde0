"""Studies of the kinds that a report is read about, put on record by hand: no torch, no trials.

`answered`: five seeds, a clear answer. `ruined`: every trial stopped. `young`: one seed, partial.
`cut_short`: a limited arm and a killed machine. `extended`: a further arm, and a broken gate.
`hostile`: names, prose and details that would harm a page which printed them as they are.
"""

import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from sweeper.records import Notice, Outcome, Reason, Skip, Stop
from sweeper.store.endings import Cost
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder

AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
BUDGET, WINDOWS, EVALUATIONS = 4000, 40, 8
FACTORS = {"half": 0.5, "baseline": 1.0, "double": 2.0, "x4": 4.0}
PEAK = 2e-4

HOSTILE_QUESTION = "Is <script>alert(1)</script> & {{ 7 * 7 }} \"too\" 'high' in /home/eve/secret?"
HOSTILE_REASON = "</style><img src=http://evil.example/x onerror=alert(2)> at /root/keys.txt."
HOSTILE_DETAIL = "the loss of window 2 was <b>nan</b> on eves-laptop in /srv/private/run-7"
HOSTILE_NOTICE = "</details><iframe src='//evil.example'></iframe> read from /mnt/eve/records.jsonl"


@dataclass(frozen=True)
class Arm:
    """How an arm behaves: what its final losses are, or why its trials end otherwise."""

    end: float = 1.6
    spread: float = 0.003
    reason: Reason = Reason.BUDGET_REACHED
    detail: str = "read 4000 of 4000 target tokens"
    retention: float = 3.05
    only_seed: int | None = None


@dataclass(frozen=True)
class Plan:
    """A study to put on record."""

    name: str
    arms: dict
    seeds: tuple
    question: str = "Is the rate too high?"
    why: str = "Nobody has looked."
    extra: str = ""
    close: bool = True


class Studies:
    """Puts studies on record with the parts that `recorded_studies` has."""

    AT = AT

    def __init__(self, parts) -> None:
        self.parts = parts

    def answered(self, place):
        arms = {
            "half": Arm(end=1.588, retention=3.02),
            "baseline": Arm(end=1.600),
            "double": Arm(end=1.655, retention=3.30, spread=0.012),
        }
        return self.record(place, Plan(name="answered", arms=arms, seeds=(0, 1, 2, 3, 4)))

    def ruined(self, place):
        stop = Arm(reason=Reason.DIVERGED, detail="validation loss 1.3 nats above the initial one")
        arms = dict.fromkeys(("half", "baseline", "double"), stop)
        return self.record(place, Plan(name="ruined", arms=arms, seeds=(0, 1, 2)))

    def young(self, place):
        arms = {"half": Arm(end=1.588), "baseline": Arm(), "double": Arm(only_seed=9)}
        return self.record(place, Plan(name="young", arms=arms, seeds=(0,), close=False))

    def cut_short(self, place):
        arms = {
            "half": Arm(end=1.588, only_seed=1, reason=Reason.KILLED, detail="killed by SIGKILL"),
            "baseline": Arm(),
            "double": Arm(reason=Reason.WALL_CLOCK, detail="3600 s of 3600 s"),
        }
        return self.record(place, Plan(name="cut_short", arms=arms, seeds=(0, 1, 2)))

    def extended(self, place):
        arms = {
            "half": Arm(end=1.66),
            "baseline": Arm(end=1.62),
            "double": Arm(end=1.59),
            "x4": Arm(end=1.61, detail="broken gate"),
        }
        return self.record(place, Plan(name="extended", arms=arms, seeds=(0, 1, 2, 3, 4)))

    def hostile(self, place):
        arms = {
            "half": Arm(reason=Reason.NONFINITE_LOSS, detail=HOSTILE_DETAIL),
            "baseline": Arm(),
            "double": Arm(reason=Reason.CODE_ERROR, detail="KeyError: 'my secret record'"),
        }
        plan = Plan(
            name="hostile",
            arms=arms,
            seeds=(0, 1, 2),
            question=HOSTILE_QUESTION,
            why=HOSTILE_REASON,
        )
        return self.record(place, plan)

    def record(self, place, plan):
        recorded = self._found(place, plan)
        with recorded.open() as store:
            for number, seed in enumerate(plan.seeds):
                for arm in _in_order(plan.arms):
                    self._trial(store, arm, seed, plan.arms[arm], number)
            if plan.close:
                store.close_study("the plan is done")
        return recorded

    def _found(self, place, plan):
        text = self.parts.STUDY_FILE
        multiples = ", ".join(f"{arm}: {FACTORS[arm]:g}" for arm in plan.arms if arm != "x4")
        for old, new in (
            ("name: rates", f"name: {plan.name}"),
            ("text: Is the rate too high?", f"text: {_quoted(plan.question)}"),
            ("Nobody has looked.", _quoted(plan.why)),
            ("half: 0.5, baseline: 1, double: 2", multiples),
            ("[0, 1, 2]", str(list(plan.seeds))),
            ("target_tokens: 30", f"target_tokens: {BUDGET}"),
            ("0.25, retention_margin: 0.5", "0.005, retention_margin: 0.05"),
        ):
            assert old in text
            text = text.replace(old, new)
        file = place / "study.yaml"
        file.write_text(text, encoding="utf-8")
        folder = StudyFolder.beside(file, plan.name)
        folder.path.mkdir(parents=True)
        folder.recorded_study.write_text(text, encoding="utf-8")
        with StudyStore.create(folder.database_url) as store:
            self._plan(store, plan, text)
        return self.parts.Recorded(file, folder)

    def _plan(self, store, plan, text):
        rates = {arm: PEAK * FACTORS[arm] for arm in plan.arms}
        cells = [
            self.parts.PlannedCell(f"{arm}/{seed}", arm, seed, rates[arm])
            for seed in plan.seeds
            for arm in _in_order(plan.arms)
        ]
        store.record_study(
            RecordedStudy(
                name=plan.name,
                fingerprint="f" * 64,
                protocol={"budget": BUDGET},
                study_yaml=text,
                factor_key="training.learning_rate",
                arms=rates,
                seeds=plan.seeds,
                budget_target_tokens=BUDGET,
            )
        )
        store.add_cells(cells)
        store.link_optuna({cell.id: number for number, cell in enumerate(cells)})

    def _trial(self, store, arm, seed, how, number):
        ends_well = how.reason is Reason.BUDGET_REACHED
        if how.only_seed is not None and how.only_seed != seed:
            if how.only_seed == 9:
                return
            how, ends_well = dataclasses.replace(how, reason=Reason.BUDGET_REACHED), True
        claim = self.parts._claim(store, f"{arm}/{seed}")
        done = WINDOWS if ends_well else WINDOWS // 2
        self.parts.report(store, claim, *self._facts(arm, seed, how, number, done))
        store.finish(
            claim,
            Outcome(reason=how.reason, detail=how.detail),
            max_resumes=0,
            cost=Cost(wall_seconds=30.0 + number, peak_memory_bytes=(430 + number) * 2**20),
        )

    def _facts(self, arm, seed, how, number, done):
        tensors = f"tensors of seed {seed}"
        if how.detail == "broken gate" and number == 1:
            tensors = "other tensors"
        start = dataclasses.replace(
            self.parts.started(f"baseline/{seed}"),
            initial_digest=tensors,
            configuration={"training.learning_rate": repr(PEAK * FACTORS[arm]), "tune": '"lora"'},
        )
        yield start
        yield Notice(message=HOSTILE_NOTICE if "nan" in how.detail else "padding is 40 %")
        every = WINDOWS // EVALUATIONS
        yield from self._evaluations(0, how, number, done)
        for window in range(1, done + 1):
            is_last = window == done and how.reason is Reason.NONFINITE_LOSS
            yield self._update(window, how, number, is_nonfinite=is_last)
            if window % every == 0 and not is_last:
                yield from self._evaluations(window // every, how, number, done)
        if how.reason in (Reason.DIVERGED, Reason.NONFINITE_LOSS):
            yield Stop(
                reason=how.reason, detail=how.detail, window=done, updates=done,
                target_tokens_read=100 * done, last_finite_loss=3.4,
            )  # fmt: skip

    def _evaluations(self, index, how, number, done):
        end = how.end + how.spread * math.sin(7 * number + 100 * how.end) + 0.004 * number
        loss = (
            end + (2.5 - how.end) * math.exp(-0.7 * index) if done == WINDOWS else 2.5 + 0.2 * index
        )
        share = index / EVALUATIONS
        end = how.retention + 0.002 * math.sin(5 * number + 9 * how.end)
        kept = 3.0 + (end - 3.0) * share
        loss = 2.5 if index == 0 else loss
        where = {"window": 5 * index, "target_tokens_read": 500 * index, "updates": 5 * index}
        yield self.parts.evaluation(index, loss=loss, **where)
        yield self.parts.evaluation(index, split="retention", loss=kept, **where)

    def _update(self, window, how, number, *, is_nonfinite):
        norm = 1.5 + math.sin(window * 0.7 + number) + 2 * (how.end - 1.5)
        usual = self.parts.update(
            window,
            target_tokens=100,
            target_tokens_read=100 * window,
            target_tokens_applied=100 * (window - is_nonfinite),
            input_tokens=240,
            padding_tokens=30,
            loss=2.5 if window == 1 else 1.9,
            gradient_norm=norm,
            clipped=norm > 2.4,
        )
        if not is_nonfinite:
            return usual
        return dataclasses.replace(
            usual, ran=False, skip=Skip.NONFINITE_LOSS, loss=math.nan, gradient_norm=None,
            learning_rate=None, clipped=False, updates=window - 1,
        )  # fmt: skip


def _in_order(arms):
    return sorted(arms, key=lambda arm: arm != "baseline")


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
