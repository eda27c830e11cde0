"""Studies of the kinds that a report is read about, put on record by hand: no torch, no trials.

`answered`: five seeds, a clear answer. `ruined`: every trial stopped. `young`: one seed, partial.
`cut_short`: a limited arm and a killed machine. `extended`: two further arms, and a broken gate.
`hostile`: names, prose and details that would harm a page which printed them as they are.
`batches`: other records per update, so other windows; evaluations at a seed's own token counts.
`opened`: `answered`, frozen, its test split opened, and with a user's metrics. `reopened`: again.
"""

import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from sweeper.records import Notice, Outcome, Reason, Skip, Stop
from sweeper.report.comparison import compare
from sweeper.selection.chain import EntryKind
from sweeper.selection.frozen import Frozen, Role, Tables
from sweeper.selection.opened import Opened, OpenedLoss, OpenedOverlap
from sweeper.store.endings import Cost
from sweeper.store.metrics import Source
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.fingerprint import declared
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study

AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
BUDGET, WINDOWS, EVALUATIONS = 4000, 40, 8
RECORDS = 640
FACTORS = {"half": 0.5, "baseline": 1.0, "double": 2.0, "x4": 4.0, "x8": 8.0}
BASELINES = {"training.learning_rate": 2e-4, "training.records_per_update": 16.0}
TEST_LOSSES = {"half": 1.605, "baseline": 1.616}
UNTRAINED = 2.5

HOSTILE_QUESTION = "Is <script>alert(1)</script> & {{ 7 * 7 }} \"too\" 'high' in /home/eve/secret?"
HOSTILE_REASON = "</style><img src=http://evil.example/x onerror=alert(2)> at /srv/keys.txt."
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
    windows: int = WINDOWS
    round: int = 0


@dataclass(frozen=True)
class Plan:
    """A study to put on record."""

    name: str
    arms: dict
    seeds: tuple
    question: str = "Is the rate too high?"
    why: str = "Nobody has looked."
    asks: str = "rate_too_high"
    key: str = "training.learning_rate"
    close: bool = True
    is_uneven: bool = False

    def value(self, arm):
        return BASELINES[self.key] * FACTORS[arm]

    def of_round(self, number):
        return [arm for arm in _in_order(self.arms) if self.arms[arm].round == number]


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
            "double": Arm(end=1.60),
            "x4": Arm(end=1.59, detail="broken gate", round=1),
            "x8": Arm(end=1.61, round=2),
        }
        return self.record(place, Plan(name="extended", arms=arms, seeds=(0, 1, 2, 3, 4)))

    def batches(self, place):
        arms = {
            "half": Arm(end=1.597, windows=80),
            "baseline": Arm(),
            "double": Arm(end=1.62, windows=20),
        }
        plan = Plan(
            name="batches", arms=arms, seeds=(0, 1, 2, 3), question="Which batch size?",
            asks="which", key="training.records_per_update", is_uneven=True,
        )  # fmt: skip
        return self.record(place, plan)

    def opened(self, place):
        recorded = self.answered(place)
        found = compare(recorded.folder.path)
        frozen = Frozen(
            number=1, arm="half", sentence=found.choice.sentence, answer=found.answer.sentence,
            protocol="f" * 64, tables=Tables(trials="a", arms="b", differences="c"),
            checkpoints=(), metric="validation loss", environment="e",
        )  # fmt: skip
        with recorded.open() as store:
            digest = store.freeze(frozen, "its choice is frozen").digest
            self._open(store, digest, found.seeds, opening=1)
            source = Source(name="bleu.csv", sha256="9" * 64)
            values = {
                (f"{arm}/{seed}", "bleu"): 20.5 + seed for arm in TEST_LOSSES for seed in (0, 1)
            }
            store.attach(values, source, replace=False)
        return recorded

    def reopened(self, place):
        recorded = self.opened(place)
        with recorded.open() as store:
            digest = store.chain.links()[-3].digest
            self._open(store, digest, (0, 1, 2, 3, 4), opening=2, reason="a reviewer asked")
        return recorded

    def _open(self, store, frozen, seeds, *, opening, reason=None):
        kind = EntryKind.TEST_INTENT if reason is None else EntryKind.TEST_REPEAT
        store.chain.append(kind, {"frozen": frozen, "test": "7" * 64, "reason": reason})
        store.chain.append(
            EntryKind.TEST_RESULT, _result(frozen, seeds, opening, reason).to_entry()
        )

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
            for number in sorted({arm.round for arm in plan.arms.values()}):
                self._run_round(store, plan, number)
            if plan.close:
                store.close_study("the plan is done")
        return recorded

    def _run_round(self, store, plan, round_number):
        if round_number:
            added = store.rounds.add(self._cells(plan, round_number), {"round": round_number})
            assert added
        for number, seed in enumerate(plan.seeds):
            for arm in plan.of_round(round_number):
                self._trial(store, plan, arm, seed, number)

    def _cells(self, plan, round_number):
        return [
            self.parts.PlannedCell(f"{arm}/{seed}", arm, seed, plan.value(arm), round_number)
            for seed in plan.seeds
            for arm in plan.of_round(round_number)
        ]

    def _found(self, place, plan):
        text = self.parts.STUDY_FILE
        multiples = ", ".join(f"{arm}: {FACTORS[arm]:g}" for arm in plan.of_round(0))
        for old, new in (
            ("name: rates", f"name: {plan.name}"),
            ("text: Is the rate too high?", f"text: {_quoted(plan.question)}"),
            ("Nobody has looked.", _quoted(plan.why)),
            ("kind: rate_too_high", f"kind: {plan.asks}"),
            ("key: training.learning_rate", f"key: {plan.key}"),
            ("half: 0.5, baseline: 1, double: 2", multiples),
            ("records_per_update: 2}", "records_per_update: 16}"),
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
            self._plan(store, plan, load_study(file))
        return self.parts.Recorded(file, folder)

    def _plan(self, store, plan, study_file):
        cells = self._cells(plan, 0)
        store.record_study(
            RecordedStudy(
                name=plan.name,
                fingerprint="f" * 64,
                protocol=declared(study_file.study),
                study_yaml=study_file.text,
                factor_key=plan.key,
                arms={arm: plan.value(arm) for arm in plan.arms if plan.arms[arm].round == 0},
                seeds=plan.seeds,
                budget_target_tokens=BUDGET,
            )
        )
        store.add_cells(cells)
        store.link_optuna({cell.id: number for number, cell in enumerate(cells)})

    def _trial(self, store, plan, arm, seed, number):
        how = plan.arms[arm]
        ends_well = how.reason is Reason.BUDGET_REACHED
        if how.only_seed is not None and how.only_seed != seed:
            if how.only_seed == 9:
                return
            how, ends_well = dataclasses.replace(how, reason=Reason.BUDGET_REACHED), True
        claim = self.parts._claim(store, f"{arm}/{seed}")
        facts = self._facts(plan, arm, seed, how, number, is_whole=ends_well)
        self.parts.report(store, claim, *facts)
        store.finish(
            claim,
            Outcome(reason=how.reason, detail=how.detail),
            max_resumes=0,
            cost=Cost(wall_seconds=30.0 + number, peak_memory_bytes=(430 + number) * 2**20),
        )

    def _facts(self, plan, arm, seed, how, number, *, is_whole):
        done = how.windows if is_whole else how.windows // 2
        tensors = f"tensors of seed {seed}"
        if how.detail == "broken gate" and number == 1:
            tensors = "other tensors"
        yield dataclasses.replace(
            self.parts.started(f"baseline/{seed}"),
            initial_digest=tensors,
            configuration={plan.key: repr(plan.value(arm)), "tune": '"lora"'},
        )
        yield Notice(message=HOSTILE_NOTICE if "nan" in how.detail else "padding is 40 %")
        read = _read(how.windows, number if plan.is_uneven else 0)
        marks = {how.windows * index // EVALUATIONS: index for index in range(1, EVALUATIONS + 1)}
        yield from self._evaluations(0, 0, read, how, number, is_whole=is_whole)
        for window in range(1, done + 1):
            is_last = window == done and how.reason is Reason.NONFINITE_LOSS
            yield self._update(window, read, how, number, is_nonfinite=is_last)
            if window in marks and not is_last:
                index = marks[window]
                yield from self._evaluations(index, window, read, how, number, is_whole=is_whole)
        if how.reason in (Reason.DIVERGED, Reason.NONFINITE_LOSS):
            yield Stop(
                reason=how.reason, detail=how.detail, window=done, updates=done,
                target_tokens_read=read[done], last_finite_loss=3.4,
            )  # fmt: skip

    def _evaluations(self, index, window, read, how, number, *, is_whole):
        end = how.end + how.spread * math.sin(7 * number + 100 * how.end) + 0.004 * number
        loss = end + (2.5 - how.end) * math.exp(-0.7 * index) if is_whole else 2.5 + 0.2 * index
        share = index / EVALUATIONS
        end = how.retention + 0.002 * math.sin(5 * number + 9 * how.end)
        kept = 3.0 + (end - 3.0) * share
        loss = 2.5 if index == 0 else loss
        where = {"window": window, "target_tokens_read": read[window], "updates": window}
        yield self.parts.evaluation(index, loss=loss, **where)
        yield self.parts.evaluation(index, split="retention", loss=kept, **where)

    def _update(self, window, read, how, number, *, is_nonfinite):
        norm = 1.5 + math.sin(window * 0.7 + number) + 2 * (how.end - 1.5)
        tokens = read[window] - read[window - 1]
        usual = self.parts.update(
            window,
            target_tokens=tokens,
            target_tokens_read=read[window],
            target_tokens_applied=read[window] - is_nonfinite * tokens,
            records=RECORDS // how.windows,
            first_record=RECORDS // how.windows * (window - 1),
            record_digest=f"the first {RECORDS // how.windows * window} records",
            input_tokens=12 * tokens // 5,
            padding_tokens=3 * tokens // 10,
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


def _read(windows, more):
    first = BUDGET // windows + more
    return [0, first, *(BUDGET * window // windows + more for window in range(2, windows)), BUDGET]


def _result(frozen, seeds, opening, reason):
    losses = [
        (role, arm, seed, round(loss + 0.001 * seed - 0.01 * bool(reason), 4))
        for role, arm, loss in (
            (Role.CHOSEN, "half", TEST_LOSSES["half"]),
            (Role.BASELINE, "baseline", TEST_LOSSES["baseline"]),
            (Role.INITIAL, None, UNTRAINED),
        )
        for seed in seeds
    ]
    return Opened(
        opening=opening, frozen=frozen, chosen="half", records_digest="7" * 64, records_read=40,
        records=39, target_tokens=410, set_digest="s", reason=reason,
        overlaps=(
            OpenedOverlap(kind="exact", split="train", count=0),
            OpenedOverlap(kind="prompt", split="validation", count=1, record_numbers=(7,)),
        ),
        losses=tuple(
            OpenedLoss(
                role=role, arm=arm, seed=seed, validation_loss=loss - 0.015, test_loss=loss,
                per_record_path="x", per_record_sha256="y",
            )
            for role, arm, seed, loss in losses
        ),
    )  # fmt: skip


def _in_order(arms):
    return sorted(arms, key=lambda arm: arm != "baseline")


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
