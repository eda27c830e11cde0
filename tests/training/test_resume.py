"""A trial that was interrupted and taken up again is the trial that was not, to the bit.

Each leg has everything anew: a model with other trainable weights, an optimizer, a scaler, and
random generators that were left anywhere. What it goes on from comes from the disk. The last tests
leave one part of that out and see that it is missed.
"""

import dataclasses
import functools
import itertools
import random

import numpy as np
import pytest
import torch
from torch.amp import GradScaler

from sweeper.records import EMPTY_DIGEST, Evaluation, Reason, Skip, Update
from sweeper.training.adapter import adapt
from sweeper.training.best import Best
from sweeper.training.checkpoint import newest_valid, read_checkpoint
from sweeper.training.determinism import seed_everything
from sweeper.training.exposure import Exposure
from sweeper.training.keeper import Keeping
from sweeper.training.options import (
    AdamWOptions,
    EvaluationGrid,
    EvaluationOptions,
    LoraOptions,
    ScheduleOptions,
    SgdOptions,
    Warmup,
)
from sweeper.training.stopping import Diverged, Nonfinite, NoUpdates, Stalled, StopOptions
from sweeper.training.trainable import digest, trainable
from sweeper.training.watch import Watch

WINDOWS = 12
OVERFLOWING = 2.0**126
"""A scale at which most gradients overflow float32; after two that do not, it is doubled again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mode:
    """How a trial is run."""

    tune: str = "lora"
    precision: str = "float32"
    scaled: bool = False
    packed: bool = False
    device: str = "cpu"

    def __str__(self):
        parts = [self.tune, self.precision, "scaled" * self.scaled, "packed" * self.packed]
        return "-".join(filter(None, parts))


MODES = [
    dataclasses.replace(mode, packed=packed)
    for mode in (
        Mode(),
        Mode(tune="full"),
        Mode(precision="bfloat16"),
        Mode(scaled=True),
    )
    for packed in (False, True)
]
ON_A_GPU = [
    Mode(precision="float16", device="cuda"),
    Mode(precision="bfloat16", device="cuda"),
    Mode(tune="full", device="cuda"),
    Mode(precision="float16", packed=True, device="cuda"),
]
PLAIN, FULL, SCALED, PACKED = Mode(), Mode(tune="full"), Mode(scaled=True), Mode(packed=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leg:
    """A trial, or a part of it."""

    run: object
    weights: str
    best: Best
    scale: float

    @property
    def facts(self):
        """All that was computed, window by window and evaluation by evaluation; nothing timed."""
        timed = {"seconds": 0.0, "peak_memory_bytes": 0}
        return [
            repr(dataclasses.replace(r, **{k: v for k, v in timed.items() if hasattr(r, k)}))
            for r in self.run.records
            if isinstance(r, Update | Evaluation)
        ]

    @property
    def end(self):
        """What is left at the end."""
        best = {name: tensor.tolist() for name, tensor in self.best.weights.items()}
        return self.run.outcome, self.weights, self.scale, self.best.loss, self.best.index, best


@pytest.fixture(scope="module")
def trial(build):
    """Runs a trial, or what of it comes after a snapshot, up to the window named `until`."""

    @functools.cache
    def windows_of(packed):
        windows = build.windows_of(
            build.random_examples(4 * WINDOWS - 2), [4] * (WINDOWS - 1) + [2]
        )
        return [in_rows(window) if packed else window for window in windows]

    def in_rows(window):
        pairs = [window.examples[place : place + 2] for place in range(0, len(window.examples), 2)]
        return dataclasses.replace(window, examples=[build.packed(*pair) for pair in pairs])

    def model_of(mode, seed):
        small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
        if mode.tune == "full":
            return build.tiny_llama(seed=seed, attention_dropout=0.1, **small)
        lora = LoraOptions(rank=2, dropout=0.1, targets=("q_proj", "v_proj"))
        return adapt(build.tiny_llama(**small), lora, seed=seed).model

    def run(mode, folder, *, until=None, snapshot=None, after=None, **kept):
        done = 0 if snapshot is None else snapshot.exposure.windows
        windows = windows_of(mode.packed)
        asked = itertools.count(done + 1)
        scaler = GradScaler("cpu", init_scale=OVERFLOWING, growth_interval=2)
        keeping = Keeping(folder=folder, best=Best(), **kept)
        model = model_of(mode, seed=0 if snapshot is None else 99).to(mode.device)
        if snapshot is None:
            seed_everything(3)
        else:
            scramble()
        leg = build.run(
            model,
            windows[done if after is None else after :],
            planned=build.planned(windows),
            options=build.training_options(
                0.01,
                precision=mode.precision,
                schedule=ScheduleOptions(kind="cosine", warmup=Warmup(updates=3)),
                optimizer=AdamWOptions(kind="adamw", weight_decay=0.01),
                clip_norm=0.1,
            ),
            held_out=[build.held_out(build.random_examples(3, seed=5))],
            evaluation=EvaluationOptions(every=EvaluationGrid(target_tokens=45)),
            stop=StopOptions(nonfinite=Nonfinite(gradient=99)),
            micro_batch=1 if mode.packed else 2,
            interrupted=lambda: next(asked) == until,
            keeping=keeping,
            resume=snapshot,
            scaler=scaler if mode.scaled else None,
        )
        weights = digest(trainable(model))
        return Leg(run=leg, weights=weights, best=keeping.best, scale=scaler.get_scale())

    return run


def scramble():
    random.seed()
    np.random.seed()  # noqa: NPY002
    torch.seed()
    random.gauss(0, 1)  # leaves half a pair behind
    np.random.normal()  # noqa: NPY002


@pytest.fixture(scope="module")
def uninterrupted(trial, tmp_path_factory):
    """The trial in one go, once per mode."""
    return functools.cache(lambda mode: trial(mode, tmp_path_factory.mktemp("whole")))


@pytest.fixture
def interrupted(trial, tmp_path):
    """Runs a trial in legs, each ended by an interruption after one of the given windows."""

    def run(mode, cuts):
        legs, snapshot = [], None
        for number, until in enumerate([*cuts, None]):
            folder = tmp_path / f"leg{number}"
            legs.append(trial(mode, folder, until=until, snapshot=snapshot))
            if until is not None:
                assert legs[-1].run.outcome.reason is Reason.PREEMPTED
                snapshot = newest_valid(folder / "checkpoints")[0].snapshot
        return legs

    return run


# --- interrupted anywhere -----------------------------------------------------------------------


def cuts_of(draw):
    """Returns the windows after which the trial is interrupted: one, or two."""
    chosen = random.Random(draw).sample(range(1, WINDOWS + 1), k=1 + draw % 2)
    return sorted(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [cuts_of(draw) for draw in range(20)], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_an_interrupted_trial_equals_the_uninterrupted_one_to_the_bit(
    mode, cuts, interrupted, uninterrupted
):
    whole, legs = uninterrupted(mode), interrupted(mode, cuts)
    assert [fact for leg in legs for fact in leg.facts] == whole.facts
    assert legs[-1].end == whole.end


@pytest.fixture
def deterministic(monkeypatch):
    """What a trial's process sets before it first uses a GPU."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("mode", ON_A_GPU, ids=str)
def test_on_a_gpu_an_interrupted_trial_equals_the_uninterrupted_one_to_the_bit(
    mode, interrupted, uninterrupted
):
    """In float16 with torch's own scaler."""
    whole, legs = uninterrupted(mode), interrupted(mode, [5, 9])
    scales = {update.loss_scale for update in whole.run.updates}
    assert [fact for leg in legs for fact in leg.facts] == whole.facts
    assert legs[-1].end == whole.end
    assert (scales == {None}) is (mode.precision != "float16")


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_mode_does_what_it_is_here_for(mode, uninterrupted):
    """Evaluations between the first and the last, some best one, overflows where there are to be
    some, rates that fall, and gradients that are clipped."""
    whole = uninterrupted(mode)
    updates = whole.run.updates
    overflows = [update.skip is Skip.SCALER_OVERFLOW for update in updates]
    assert whole.run.outcome.reason is Reason.BUDGET_REACHED
    assert len(updates) == WINDOWS
    assert 4 <= len(whole.run.evaluations) < WINDOWS
    assert whole.best.loss is not None
    assert any(overflows) is mode.scaled
    assert not all(overflows)
    assert any(update.clipped for update in updates)
    assert updates[-1].learning_rate < 0.01


@pytest.mark.parametrize("mode", [PLAIN, SCALED], ids=str)
def test_a_trial_interrupted_after_every_window_equals_the_uninterrupted_one(
    mode, interrupted, uninterrupted
):
    legs = interrupted(mode, range(1, WINDOWS + 1))
    assert [fact for leg in legs for fact in leg.facts] == uninterrupted(mode).facts
    assert legs[-1].end == uninterrupted(mode).end


def due_evaluation(whole):
    """Returns the first evaluation that is due after a window and not at the end."""
    return next(e for e in whole.run.evaluations if 0 < e.window < WINDOWS)


def test_an_evaluation_that_was_due_when_the_trial_was_interrupted_is_made_by_the_next_leg(
    interrupted, uninterrupted
):
    due = due_evaluation(uninterrupted(PLAIN))
    first, second = interrupted(PLAIN, [due.window])
    assert [evaluation.index for evaluation in first.run.evaluations] == [0]
    made = second.run.evaluations[0]
    assert (made.index, made.window, made.loss) == (due.index, due.window, due.loss)
    assert made.per_record_sha256 == due.per_record_sha256


def test_a_trial_interrupted_after_its_last_window_has_only_the_last_evaluation_left(
    interrupted, uninterrupted
):
    first, second = interrupted(PLAIN, [WINDOWS])
    assert len(first.run.updates) == WINDOWS
    assert second.run.updates == []
    assert [e.index for e in second.run.evaluations] == [
        uninterrupted(PLAIN).run.evaluations[-1].index
    ]
    assert second.end == uninterrupted(PLAIN).end


def test_checkpoints_on_the_way_change_nothing_and_any_of_them_can_be_gone_on_from(
    trial, tmp_path, uninterrupted
):
    """Made after every fifth window, so the evaluations before them are not made again."""
    whole = uninterrupted(PLAIN)
    kept = trial(PLAIN, tmp_path, every_windows=5, keep=9)
    assert (kept.facts, kept.end) == (whole.facts, whole.end)
    found = read_checkpoint(tmp_path / "checkpoints" / "00000005")
    rest = trial(PLAIN, tmp_path / "again", snapshot=found.snapshot)
    assert rest.facts == whole.facts[-len(rest.facts) :]
    assert [update.window for update in rest.run.updates] == list(range(6, WINDOWS + 1))
    assert rest.end == whole.end


def test_a_snapshot_can_be_gone_on_from_more_than_once(trial, tmp_path):
    trial(PLAIN, tmp_path, until=4)
    snapshot = newest_valid(tmp_path / "checkpoints")[0].snapshot
    first = trial(PLAIN, tmp_path / "first", snapshot=snapshot)
    second = trial(PLAIN, tmp_path / "second", snapshot=snapshot)
    assert (first.facts, first.end) == (second.facts, second.end)


def test_random_states_are_back_before_the_first_window_is_fetched(build, tmp_path):
    """transformers PR #46628: here each window is masked at random when it is asked for."""
    windows = build.windows_of(build.random_examples(12), [4, 4, 4])

    def fetched(later):
        for window in later:
            examples = [masked(each) for each in window.examples]
            yield dataclasses.replace(window, examples=examples)

    def masked(each):
        hidden = np.random.random(len(each.token_ids)) < random.random() / 2  # noqa: NPY002
        tokens = np.where(hidden, int(torch.randint(64, ())), each.token_ids)
        return dataclasses.replace(each, token_ids=tokens.astype(np.int32))

    def leg(later, until, **changes):
        asked = itertools.count(1)
        run = build.run(
            build.tiny_llama(),
            fetched(later),
            planned=build.planned(windows),
            interrupted=lambda: next(asked) == until,
            keeping=Keeping(folder=tmp_path),
            **changes,
        )
        return run.losses

    seed_everything(3)
    whole = leg(windows, None)
    seed_everything(3)
    assert leg(windows, 1) == whole[:1]
    snapshot = newest_valid(tmp_path / "checkpoints")[0].snapshot
    scramble()
    assert leg(windows[1:], None, resume=snapshot) == whole[1:]


# --- stop conditions that span an interruption --------------------------------------------------


def poisoned(build):
    """Token 0 costs 4 nats; the weights of token 1 are finite, but ten times them overflows."""
    table = build.table_with_losses([4.0, 1.0], dtype=torch.float32) / 10
    table[1] = 3e38
    return build.Bigram(table, scale=10.0)


def with_nonfinite_losses(build):
    tokens = [0, 1, 0, 1, 1, 1, 0]
    stop = StopOptions(nonfinite=Nonfinite(loss=3))
    return {"stop": stop}, lambda: poisoned(build), [build.costing(token) for token in tokens]


def with_nonfinite_gradients(build):
    stop = StopOptions(nonfinite=Nonfinite(gradient=4))
    return (
        {"stop": stop},
        lambda: build.Bigram(torch.zeros(2, 2), scale=3e38),
        [build.costing(0)] * 6,
    )


def without_updates(build):
    silent = build.example([0, 0], targets=[])
    examples = [build.costing(0), silent, silent, silent, silent, build.costing(0)]
    stop = StopOptions(no_updates=NoUpdates(windows=4))
    return {"stop": stop}, lambda: build.Bigram(torch.zeros(2, 2)), examples


def stalled(build):
    stop = StopOptions(stalled=Stalled(updates=4))
    options = build.training_options(1e-30)
    examples = [build.costing(0)] * 6
    return {"stop": stop, "options": options}, lambda: build.Bigram(torch.ones(2, 2)), examples


def diverging(build):
    changes = {
        "held_out": [build.held_out([build.example([0, 1])])],
        "evaluation": EvaluationOptions(every=EvaluationGrid(target_tokens=1)),
        "options": build.training_options(1.0, optimizer=SgdOptions(kind="sgd")),
        "stop": StopOptions(diverged=Diverged(nats_above_initial=0.1, evaluations=4)),
    }
    return changes, lambda: build.Bigram(torch.zeros(2, 2)), [build.costing(0)] * 7


@pytest.mark.parametrize(
    ("scenario", "reason", "window"),
    [
        (with_nonfinite_losses, Reason.NONFINITE_LOSS, 6),
        (with_nonfinite_gradients, Reason.NONFINITE_GRADIENT, 4),
        (without_updates, Reason.NO_UPDATES, 5),
        (stalled, Reason.STALLED_UPDATES, 4),
        (diverging, Reason.DIVERGED, 4),
    ],
)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_row_of_bad_windows_goes_on_after_an_interruption(
    scenario, reason, window, cut, build, tmp_path
):
    changes, model_of, examples = scenario(build)
    windows = build.windows_of(examples, [1] * len(examples))
    changes |= {"planned": build.planned(windows)}
    whole = build.run(model_of(), windows, **changes)
    asked = iter([False] * (cut - 1) + [True])
    build.run(
        model_of(),
        windows,
        interrupted=lambda: next(asked),
        keeping=Keeping(folder=tmp_path),
        **changes,
    )
    snapshot = newest_valid(tmp_path / "checkpoints")[0].snapshot
    rest = build.run(model_of(), windows[cut:], resume=snapshot, **changes)
    assert (whole.outcome.reason, whole.stop.window) == (reason, window)
    assert rest.outcome == whole.outcome
    assert repr(rest.stop) == repr(whole.stop)


# --- with one part left out ---------------------------------------------------------------------

CUT = 5


@pytest.fixture
def going_on(trial, tmp_path, uninterrupted):
    """Interrupts a trial after window 5 and goes on with a snapshot that was changed; returns that
    leg, and what the uninterrupted trial reports of the same windows."""

    def run(mode, change, **others):
        trial(mode, tmp_path / "first", until=CUT)
        snapshot = newest_valid(tmp_path / "first" / "checkpoints")[0].snapshot
        leg = trial(mode, tmp_path / "second", snapshot=change(snapshot), **others)
        whole = uninterrupted(mode)
        first = next(i for i, fact in enumerate(whole.facts) if f"window={CUT + 1}," in fact)
        return leg, whole.facts[first:], whole

    return run


def with_facts(snapshot, **changes):
    return dataclasses.replace(snapshot, facts={**snapshot.facts, **changes})


def without_optimizer(snapshot):
    tensors = {n: t for n, t in snapshot.tensors.items() if not n.startswith("optimizer/")}
    return with_facts(dataclasses.replace(snapshot, tensors=tensors), optimizer={})


def without_random_states(snapshot):
    return with_facts(snapshot, random=[])


def without_scale(snapshot):
    fresh = GradScaler("cpu", init_scale=OVERFLOWING * 2.0**-40, growth_interval=2)
    return with_facts(snapshot, scaler=fresh.state_dict())


def without_weights(snapshot):
    zeros = {n: torch.zeros_like(t) for n, t in snapshot.tensors.items() if "weights/" in n}
    return dataclasses.replace(snapshot, tensors={**snapshot.tensors, **zeros})


def unchanged(snapshot):
    return snapshot


@pytest.mark.parametrize("mode", [PLAIN, FULL, SCALED, PACKED], ids=str)
def test_with_nothing_left_out_nothing_is_missed(mode, going_on):
    leg, expected, whole = going_on(mode, unchanged)
    assert (leg.facts, leg.end) == (expected, whole.end)


@pytest.mark.parametrize("mode", [PLAIN, FULL, SCALED, PACKED], ids=str)
def test_without_the_optimizers_moments_the_first_loss_is_right_and_the_rest_is_not(mode, going_on):
    """So comparing one window would not do."""
    leg, expected, whole = going_on(mode, without_optimizer)
    assert leg.facts[0] == expected[0]
    assert leg.facts[1:] != expected[1:]
    assert leg.weights != whole.weights


@pytest.mark.parametrize("mode", [PLAIN, FULL, SCALED, PACKED], ids=str)
def test_without_the_random_states_the_very_first_loss_is_another(mode, going_on):
    leg, expected, whole = going_on(mode, without_random_states)
    assert leg.facts[0] != expected[0]
    assert leg.weights != whole.weights


def test_without_the_weights_the_very_first_loss_is_another(going_on):
    leg, expected, _ = going_on(FULL, without_weights)
    assert leg.facts[0] != expected[0]


def test_without_the_scale_other_windows_overflow(going_on):
    leg, expected, whole = going_on(SCALED, without_scale)
    assert leg.facts != expected
    assert leg.weights != whole.weights


@pytest.mark.parametrize("after", [0, CUT - 1, CUT + 1])
def test_windows_from_another_place_end_the_trial_at_once(after, going_on):
    """The cursor is left out, or it is one off."""
    leg, _, _ = going_on(PLAIN, unchanged, after=after)
    assert leg.run.outcome.reason is Reason.BUDGET_MISMATCH
    assert leg.run.outcome.detail == (
        f"Window {CUT + 1} is the first that differs: window {after + 1} came instead."
    )


def test_without_the_ledger_the_first_window_is_not_the_one_that_is_expected(going_on):
    leg, _, _ = going_on(
        PLAIN,
        lambda snapshot: with_facts(snapshot, exposure=dataclasses.asdict(Exposure())),
        after=CUT,
    )
    assert leg.run.outcome.detail == (
        f"Window 1 is the first that differs: window {CUT + 1} came instead."
    )


def test_with_another_record_digest_the_first_window_is_not_the_one_that_is_expected(going_on):
    leg, _, _ = going_on(
        PLAIN,
        lambda snapshot: with_facts(
            snapshot,
            exposure=dict(snapshot.facts["exposure"]) | {"record_digest": EMPTY_DIGEST.hex()},
        ),
    )
    assert leg.run.outcome.detail.startswith(
        f"Window {CUT + 1} is the first that differs: record_digest is "
    )


def test_without_what_the_stop_conditions_remember_a_row_begins_anew(build, tmp_path):
    """Updates that move nothing end the trial at the fourth; the third is where it is cut."""
    changes, model_of, examples = stalled(build)
    windows = build.windows_of(examples, [1] * len(examples))
    changes |= {"planned": build.planned(windows)}
    asked = iter([False, False, True])
    keeping = Keeping(folder=tmp_path)
    build.run(model_of(), windows, interrupted=lambda: next(asked), keeping=keeping, **changes)
    snapshot = newest_valid(tmp_path / "checkpoints")[0].snapshot
    forgetful = with_facts(snapshot, watch=Watch(StopOptions()).remembered())
    rest = build.run(model_of(), windows[3:], resume=forgetful, **changes)
    assert rest.outcome.reason is Reason.BUDGET_REACHED


def test_without_the_evaluation_that_is_due_it_is_never_made(trial, tmp_path, uninterrupted):
    due = due_evaluation(uninterrupted(PLAIN))
    trial(PLAIN, tmp_path / "first", until=due.window)
    snapshot = newest_valid(tmp_path / "first" / "checkpoints")[0].snapshot
    assert snapshot.facts["evaluation_due"] == due.index
    leg = trial(PLAIN, tmp_path / "second", snapshot=with_facts(snapshot, evaluation_due=None))
    assert due.index not in {evaluation.index for evaluation in leg.run.evaluations}


def test_without_the_best_weights_a_later_and_worse_one_is_kept(build, tmp_path):
    """Each update makes the validation loss worse: the first evaluation stays the best."""
    changes, model_of, examples = diverging(build)
    windows = build.windows_of(examples, [1] * len(examples))
    changes |= {"planned": build.planned(windows), "stop": StopOptions()}
    asked = iter([False, False, True])
    keeping = Keeping(folder=tmp_path, best=Best())
    build.run(model_of(), windows, interrupted=lambda: next(asked), keeping=keeping, **changes)
    snapshot = newest_valid(tmp_path / "checkpoints")[0].snapshot
    forgetful = with_facts(snapshot, best={"loss": None, "index": None})
    remembered, forgotten = Keeping(best=Best()), Keeping(best=Best())
    build.run(model_of(), windows[3:], resume=snapshot, keeping=remembered, **changes)
    build.run(model_of(), windows[3:], resume=forgetful, keeping=forgotten, **changes)
    assert (remembered.best.index, forgotten.best.index) == (1, 3)
