"""What is studied makes the fingerprint, and nothing else does."""

from __future__ import annotations

import hashlib

import pytest

from sweeper.data.manifest import Manifest
from sweeper.study.fingerprint import (
    Difference,
    canonical_json,
    differences,
    fingerprint,
    protocol_of,
)
from sweeper.study.loading import load_study


@pytest.fixture
def protocol(load, manifest, tmp_path):
    return lambda *changes: protocol_of(load(*changes).study, manifest, folder=tmp_path)


UPDATE = "records_per_update: 4"
LENGTH = "max_length: 512"
TUNE = "tune: lora"
MODEL = "{path: models/tiny}"
COSINE = "{kind: cosine}"
RETENTION = ("{path: data/validation.jsonl}", "{path: data/v.jsonl}\n  retention: {path: r.jsonl}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: small", "name: other"),
        ("Is the rate too high?", "Is it?"),
        ("The loss spikes.", "Somebody asked."),
        ("data/train.jsonl", "elsewhere/train.jsonl"),
        ("data/validation.jsonl", "elsewhere/validation.jsonl"),
        ("models/tiny", "elsewhere/tiny"),
        ("run: {micro_batch: 2}", "run: {micro_batch: 4, deterministic: false, max_resumes: 0}"),
        ("seeds: [0, 1]", "# a remark\nseeds:\n- 0\n- 1"),
        ("{half: 0.5, baseline: 1, double: 2}", "{double: 2.0, half: 5e-1, baseline: 1.0}"),
        (TUNE, "tune: lora\nlora: {}"),
        (TUNE, "tune: lora\nlora: {rank: 16, alpha: 32, targets: all-linear}"),
        (TUNE, "tune: lora\nstop: {diverged: {nats_above_initial: 1}}"),
        (TUNE, "tune: lora\nselection: {extensions: 0}"),
        (COSINE, "{kind: cosine, final: 0, counter: updates, warmup: null}"),
        (UPDATE, f"{UPDATE}\n  optimizer: {{kind: adamw, weight_decay: 0}}"),
        (UPDATE, f"{UPDATE}\n  clip_norm: 1"),
        (LENGTH, f"{LENGTH}\n  packing: null\n  fields: {{prompt: prompt}}"),
    ],
)
def test_what_is_not_studied_or_says_the_same_leaves_the_fingerprint(protocol, old, new) -> None:
    assert fingerprint(protocol((old, new))) == fingerprint(protocol())


def test_the_order_of_keys_leaves_the_fingerprint(write_study, manifest, tmp_path) -> None:
    file = write_study()
    before = protocol_of(load_study(file).study, manifest, folder=tmp_path)
    top, _, rest = file.read_text().partition("tune: lora\n")
    file.write_text("tune: lora\n" + rest + top)

    after = protocol_of(load_study(file).study, manifest, folder=tmp_path)

    assert fingerprint(after) == fingerprint(before)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("kind: rate_too_high", "kind: which", "question.kind"),
        ("double: 2", "double: 3", "compare.multiply.double"),
        ("half: 0.5", "third: 0.5", "compare.multiply.third"),
        ("seeds: [0, 1]", "seeds: [0, 2]", "seeds"),
        ("target_tokens: 17", "target_tokens: 18", "budget.target_tokens"),
        (MODEL, "{path: models/tiny, revision: v2}", "model.revision"),
        (MODEL, "{path: models/tiny, dtype: float32}", "model.dtype"),
        (MODEL, "{path: models/tiny, attention: eager}", "model.attention"),
        (MODEL, "{path: models/tiny, trust_remote_code: true}", "model.trust_remote_code"),
        (TUNE, "tune: full", "tune"),
        (TUNE, "tune: lora\nlora: {rank: 8}", "lora.rank"),
        (TUNE, "tune: lora\nlora: {alpha: 8}", "lora.alpha"),
        (TUNE, "tune: lora\nlora: {dropout: 0.1}", "lora.dropout"),
        (TUNE, "tune: lora\nlora: {targets: [q_proj]}", "lora.targets"),
        (LENGTH, "max_length: 256", "data.max_length"),
        (LENGTH, f"{LENGTH}\n  format: text", "data.format"),
        (LENGTH, f"{LENGTH}\n  fields: {{prompt: question}}", "data.fields.prompt"),
        (LENGTH, f"{LENGTH}\n  supervise: all", "data.supervise"),
        (LENGTH, f"{LENGTH}\n  template_arguments: {{x: 1}}", "data.template_arguments.x"),
        (LENGTH, f"{LENGTH}\n  overlong: cut", "data.overlong"),
        (LENGTH, f"{LENGTH}\n  duplicates: drop_from_train", "data.duplicates"),
        (LENGTH, f"{LENGTH}\n  max_epochs: 2", "data.max_epochs"),
        (LENGTH, f"{LENGTH}\n  packing: {{row_tokens: 512}}", "data.packing.row_tokens"),
        (*RETENTION, "data.retention.format"),
        ("learning_rate: 0.25", "learning_rate: 0.24", "training.learning_rate"),
        (COSINE, "{kind: linear}", "training.schedule.kind"),
        (COSINE, "{kind: cosine, warmup: {updates: 1}}", "training.schedule.warmup.updates"),
        (COSINE, "{kind: cosine, final: 0.1}", "training.schedule.final"),
        (UPDATE, f"{UPDATE}\n  optimizer: {{kind: sgd}}", "training.optimizer.kind"),
        (
            UPDATE,
            f"{UPDATE}\n  optimizer: {{kind: adamw, betas: [0.9, 0.99]}}",
            "training.optimizer.betas",
        ),
        (
            UPDATE,
            f"{UPDATE}\n  optimizer: {{kind: adamw, eps: 1e-6}}",
            "training.optimizer.eps",
        ),
        (
            UPDATE,
            f"{UPDATE}\n  optimizer: {{kind: adamw, weight_decay: 0.1}}",
            "training.optimizer.weight_decay",
        ),
        (UPDATE, "records_per_update: 8", "training.records_per_update"),
        (UPDATE, f"{UPDATE}\n  clip_norm: null", "training.clip_norm"),
        (UPDATE, f"{UPDATE}\n  precision: float32", "training.precision"),
        (
            TUNE,
            "tune: lora\nevaluation: {every: {target_tokens: 5}}",
            "evaluation.every.target_tokens",
        ),
        (TUNE, "tune: lora\nevaluation: {max_records: 5}", "evaluation.max_records"),
        (TUNE, "tune: lora\nstop: {nonfinite: {loss: 2}}", "stop.nonfinite.loss"),
        (TUNE, "tune: lora\nstop: {nonfinite: {gradient: 2}}", "stop.nonfinite.gradient"),
        (TUNE, "tune: lora\nstop: {no_updates: {windows: 2}}", "stop.no_updates.windows"),
        (TUNE, "tune: lora\nstop: {stalled: {updates: 2}}", "stop.stalled.updates"),
        (
            TUNE,
            "tune: lora\nstop: {diverged: {nats_above_initial: 2}}",
            "stop.diverged.nats_above_initial",
        ),
        (TUNE, "tune: lora\nstop: {diverged: {evaluations: 3}}", "stop.diverged.evaluations"),
        (TUNE, "tune: lora\nstop: {study: never}", "stop.study"),
        (
            TUNE,
            "tune: lora\nselection: {smallest_difference: 0.01}",
            "selection.smallest_difference",
        ),
        (TUNE, "tune: lora\nselection: {retention_margin: 0.01}", "selection.retention_margin"),
        (TUNE, "tune: lora\nselection: {noise_floor: true}", "selection.noise_floor"),
    ],
)
def test_each_studied_key_changes_the_fingerprint_and_is_named(protocol, old, new, key) -> None:
    before, after = protocol(), protocol((old, new))

    assert fingerprint(after) != fingerprint(before)
    assert key in [difference.key for difference in differences(before, after)]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model_digest": "other"}, "model.content"),
        ({"test": None}, "data.splits.test"),
    ],
)
def test_other_contents_change_the_fingerprint(load, manifest, tmp_path, change, key) -> None:
    study = load().study
    before = protocol_of(study, manifest, folder=tmp_path)
    after = protocol_of(study, manifest.model_copy(update=change), folder=tmp_path)

    assert [difference.key for difference in differences(before, after)] == [key]
    assert fingerprint(after) != fingerprint(before)


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("part", ["records", "tokens"])
def test_other_records_or_tokens_change_the_fingerprint(
    load, manifest, tmp_path, split, part
) -> None:
    study = load().study
    changed: Manifest = manifest.model_copy(deep=True)
    changed.splits[split] = changed.splits[split].model_copy(update={f"{part}_digest": "other"})

    found = differences(
        protocol_of(study, manifest, folder=tmp_path), protocol_of(study, changed, folder=tmp_path)
    )

    assert found == (Difference(f"data.splits.{split}.{part}", f'"{split}-{part}"', '"other"'),)


def test_a_chat_template_enters_by_its_contents(load, manifest, tmp_path) -> None:
    (tmp_path / "a.jinja").write_text("{{ messages }}")
    study = load(("max_length: 512", "max_length: 512\n  chat_template: a.jinja")).study

    protocol = protocol_of(study, manifest, folder=tmp_path)

    assert isinstance(protocol["data"], dict)
    assert protocol["data"]["chat_template"] == hashlib.sha256(b"{{ messages }}").hexdigest()


def test_the_fingerprint_is_the_sha256_of_canonical_json() -> None:
    protocol = {"b": [1, 0.1], "a": {"y": None, "x": 1e-5}}

    assert canonical_json(protocol) == '{"a":{"x":1e-05,"y":null},"b":[1,0.1]}'
    assert fingerprint(protocol) == hashlib.sha256(canonical_json(protocol).encode()).hexdigest()


def test_a_number_that_json_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_differences_are_sorted_and_say_what_is_absent() -> None:
    old = {"b": {"x": 1}, "a": 1.0, "same": [1]}
    new = {"b": {"y": 2}, "a": 2.0, "same": [1]}

    assert differences(old, new) == (
        Difference("a", "1.0", "2.0"),
        Difference("b.x", "1", "(absent)"),
        Difference("b.y", "(absent)", "2"),
    )


def test_auto_enters_as_written(protocol) -> None:
    made = protocol()

    assert made["model"]["dtype"] == "auto"
    assert made["training"]["precision"] == "auto"
    assert not {"run", "name", "justification"} & made.keys()
