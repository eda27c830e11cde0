"""What a study takes from an earlier one, and what it refuses to."""

import json
import shutil

import pytest

from sweeper.errors import RunFolderError, StudyFileError
from sweeper.selection.chain import EntryKind
from sweeper.study.chain_file import read_chain_file
from sweeper.study.checking import describe
from sweeper.study.fingerprint import protocol_of
from sweeper.study.folder import StudyFolder
from sweeper.study.following import kept_choice, recorded_study_file, taken_by, with_baseline
from sweeper.study.plan import make_plan
from sweeper.sweep.plan_file import write_plan

FOLLOWS = ("tune: lora", "tune: lora\nbaseline: {from: runs/earlier}")
NO_RATE = ("  learning_rate: 0.25\n", "")
NAME = ("name: small", "name: second")
BATCHES = ("key: training.learning_rate", "key: training.records_per_update")
WHICH = ("kind: rate_too_high", "kind: which")
FOLLOW_UP = (NAME, FOLLOWS, NO_RATE, BATCHES, WHICH)
CHOSEN_WITH = "the rate of study earlier was chosen with"
ARMS = "multiply: {half: 0.5, baseline: 1, double: 2}"


@pytest.fixture
def earlier(tmp_path):
    return StudyFolder(tmp_path / "runs" / "earlier")


@pytest.fixture
def own(tmp_path):
    return StudyFolder(tmp_path / "runs" / "second")


@pytest.fixture
def froze(load, manifest, earlier, earlier_choices, tmp_path):
    """Writes the earlier study, the small one with changes, and its frozen choice."""

    def write(*changes, **facts):
        protocol = protocol_of(load(*changes).study, manifest, folder=tmp_path)
        return earlier_choices.freeze(earlier, protocol, **facts)

    return write


@pytest.fixture
def following(load, own):
    """Returns the follow-up study, with changes, and the rate it takes."""
    return lambda *changes: with_baseline(load(*FOLLOW_UP, *changes), own)


@pytest.fixture
def planned(following, manifest, prepared):
    return lambda *changes: make_plan(following(*changes), manifest, prepared)


@pytest.fixture
def on_record(following, manifest, prepared, own):
    """Puts the follow-up study into its run folder, as founding it does."""

    def found(*changes):
        study_file = following(*changes)
        plan = make_plan(study_file, manifest, prepared)
        own.path.mkdir(parents=True, exist_ok=True)
        write_plan(study_file, plan, own)
        own.recorded_study.write_text(study_file.text)
        return plan

    return found


def refused(what):
    with pytest.raises(StudyFileError) as caught:
        what()
    return str(caught.value)


def test_the_rate_is_the_chosen_arms(froze, following):
    froze(arm="half")

    assert following().study.learning_rate == 0.125


def test_the_baselines_own_rate_may_be_the_choice(froze, following):
    froze(arm="baseline")

    assert following().study.learning_rate == 0.25


def test_the_last_of_several_choices_counts(froze, following, earlier_choices):
    first = froze(arm="half")[-1]
    froze(arm="double", before=[(EntryKind.SELECTION_FROZEN, first.facts)])

    assert following().study.learning_rate == 0.5


def test_an_arm_that_was_added_has_the_rate_that_the_chain_notes(froze, following):
    note = {"extension": "x0.25", "value": 0.0625, "round": 1, "because": "at the edge"}
    froze(arm="x0.25", before=[(EntryKind.NOTE, note)])

    assert following().study.learning_rate == 0.0625


def test_the_choice_of_a_batch_size_is_to_be_written_and_has_the_rate_of_its_study(
    froze, following
):
    froze(BATCHES, WHICH, (ARMS, "multiply: {half: 0.5, baseline: 1}"), arm="half")

    taken = following(("records_per_update: 4", "records_per_update: 2"))

    assert taken.study.learning_rate == 0.25
    assert "training.records_per_update: the rate of study earlier was chosen with another" in (
        refused(following)
    )


def test_the_choice_of_a_precision_is_to_be_written(froze, following):
    froze(
        ("key: training.learning_rate", "key: training.precision"),
        WHICH,
        (ARMS, "values: {baseline: float32, bf16: bfloat16}"),
        ("  records_per_update: 4", "  records_per_update: 4\n  precision: float32"),
        ("model: {path: models/tiny}", "model: {path: models/tiny, dtype: float32}"),
        arm="bf16",
    )
    dtype = ("model: {path: models/tiny}", "model: {path: models/tiny, dtype: float32}")
    precision = ("  records_per_update: 4", "  records_per_update: 4\n  precision: {}")

    bfloat16 = (precision[0], precision[1].format("bfloat16"))
    assert following(dtype, bfloat16).study.learning_rate == 0.25
    assert refused(lambda: following(dtype, (precision[0], precision[1].format("float32")))) == (
        "study.yaml:19: training.precision: the rate of study earlier was chosen with another "
        "value (got float32; expected bfloat16, as its arm bf16 had). A rate holds for the "
        "settings it was chosen under: write them here as they were there, or find the rate for "
        "the new ones in a study of rates."
    )


def test_the_study_file_of_the_earlier_study_stands_for_its_folder(froze, load, own, tmp_path):
    froze(("name: small", "name: earlier"))
    shutil.copy("study.yaml", "first.yaml")

    taken = with_baseline(
        load(NAME, ("tune: lora", "tune: lora\nbaseline: {from: first.yaml}"), NO_RATE), own
    )

    assert taken.study.learning_rate == 0.125


def test_other_seeds_evaluation_stop_rules_and_selection_are_free(froze, following):
    froze()

    taken = following(
        ("seeds: [0, 1]", "seeds: [7, 8, 9]"),
        ("run: {micro_batch: 2}", "run: {micro_batch: 1}\nselection: {smallest_difference: 0.1}"),
        (
            "training:\n",
            "evaluation: {every: {target_tokens: 5}}\nstop: {study: never}\ntraining:\n",
        ),
    )

    assert taken.study.learning_rate == 0.125


def test_every_other_setting_is_told_in_one_message(froze, following):
    froze()

    told = refused(
        lambda: following(
            ("tune: lora\n", "tune: lora\nlora: {rank: 4}\n"),
            ("budget: {target_tokens: 17}", "budget: {target_tokens: 18}"),
            ("  max_length: 512", "  max_length: 512\n  packing: {row_tokens: 600}"),
            ("kind: cosine", "kind: linear"),
            ("records_per_update: 4", "records_per_update: 8\n  clip_norm: 0.5"),
        )
    )

    assert [line.partition(": the rate")[0] for line in told.splitlines()] == [
        "study.yaml:8: budget.target_tokens",
        "study.yaml:11: lora.rank",
        "study.yaml:17: data.packing.row_tokens",
        "study.yaml:19: training.schedule.kind",
        "study.yaml:20: training.records_per_update",
        "study.yaml:21: training.clip_norm",
    ]
    assert "(got 600; expected nothing, as its arm half had)" in told


def test_another_method_is_one_difference(froze, following):
    froze()

    told = refused(lambda: following(("tune: lora\n", "tune: full\n")))

    assert told.startswith(
        "study.yaml:10: tune: the rate of study earlier was chosen with another value (got full; "
        "expected lora, as its arm half had). A rate holds for the settings it was chosen under"
    )
    assert len(told.splitlines()) == 1


def test_other_records_and_another_model_are_refused_once_they_are_prepared(
    froze, following, manifest, prepared
):
    froze()
    digests = {"records_digest": "a" * 64, "tokens_digest": "b" * 64}
    splits = {**manifest.splits, "train": manifest.splits["train"].model_copy(update=digests)}
    others = manifest.model_copy(update={"model_digest": "other", "splits": splits})

    told = refused(lambda: make_plan(following(), others, prepared))

    assert [line.partition(" (")[0] for line in told.splitlines()] == [
        f"study.yaml:9: model.path: {CHOSEN_WITH} the files of another model, by their digest",
        f"study.yaml:13: data.train: {CHOSEN_WITH} other records, by their digest",
    ]
    assert "(got aaaaaaaaaaaa; expected train-records, as its arm half had)" in told


def test_a_budget_in_epochs_is_compared_in_target_tokens(froze, following, manifest, prepared):
    froze(("budget: {target_tokens: 17}", "budget: {epochs: 1}"), budget=20)

    in_tokens = following(("budget: {target_tokens: 17}", "budget: {target_tokens: 20}"))
    assert make_plan(in_tokens, manifest, prepared).budget_target_tokens == 20

    froze(("budget: {target_tokens: 17}", "budget: {epochs: 1}"), budget=19)
    assert "expected 19 target tokens" in refused(
        lambda: following(("budget: {target_tokens: 17}", "budget: {target_tokens: 20}"))
    )
    in_epochs = following(("budget: {target_tokens: 17}", "budget: {epochs: 1}"))
    assert "budget.epochs: the rate of study earlier was chosen with another budget" in refused(
        lambda: make_plan(in_epochs, manifest, prepared)
    )


def test_the_test_split_may_be_another(froze, following, manifest, prepared):
    froze()
    test = manifest.test.model_copy(update={"records_digest": "unseen"})

    plan = make_plan(following(), manifest.model_copy(update={"test": test}), prepared)

    assert plan.arms[0].learning_rate_peak == 0.125


def test_rates_about_a_taken_rate_are_checked_as_written_ones_are(froze, load, own):
    froze()
    huge = (ARMS, "multiply: {half: 0.5, baseline: 1, double: 1e9}")

    told = refused(lambda: with_baseline(load(NAME, FOLLOWS, NO_RATE, huge), own))

    assert "the learning rate of the arm `double` is out of range" in told


NO_FOLDER = (
    "there is no such run folder (got {0}). Name the folder runs/NAME of a study whose choice "
    "`sweeper select` has frozen."
)
NO_STUDY = (
    "no study has begun in this folder (got {0}). Name the folder runs/NAME that a run of the "
    "earlier study made."
)
NOT_FROZEN = (
    "the earlier study has no frozen choice yet (got {0}). `sweeper select {0}` freezes it."
)
TAMPERED = (
    "the earlier study's chain is not whole: entry 2 (selection_frozen) does not have the digest "
    "it was sealed with: it was changed, or an entry before it was (got {0}/chain.jsonl). "
    "`sweeper audit {0}` says what became of it."
)
OTHER_PLAN = (
    "the earlier study's run folder does not say under which settings its choice was made (got "
    "{0}/plan.json: a plan without the fingerprint that the choice was frozen for). Put a copy of "
    "plan.json back; `sweeper audit {0}` says what else is missing."
)


def replace_in(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: shutil.rmtree(folder.path), NO_FOLDER),
        (lambda folder: (folder.plan.unlink(), folder.chain.unlink()), NO_STUDY),
        (lambda folder: folder.chain.unlink(), NOT_FROZEN),
        (lambda folder: replace_in(folder.chain, '"arm":"half"', '"arm":"double"'), TAMPERED),
        (lambda folder: replace_in(folder.plan, "cosine", "linear"), OTHER_PLAN),
    ],
    ids=["no folder", "no study", "not frozen", "tampered chain", "other plan"],
)
def test_what_is_no_frozen_choice_is_refused(spoil, told, froze, following, earlier):
    froze()
    spoil(earlier)

    assert refused(following) == f"study.yaml:11: baseline.from: {told.format(earlier.path)}"


def test_a_study_does_not_take_its_baseline_from_itself(froze, load, earlier):
    froze()

    told = refused(
        lambda: with_baseline(load(("name: small", "name: earlier"), FOLLOWS, NO_RATE), earlier)
    )

    assert "a study cannot take its baseline from itself" in told


def test_the_protocol_says_which_choice_was_taken(froze, planned):
    links = froze()

    protocol = planned().protocol

    assert protocol["training"]["learning_rate"] == 0.125
    assert protocol["baseline"] == {
        "study": "earlier",
        "arm": "half",
        "fingerprint": links[-1].facts["protocol"],
        "entry": links[-1].digest,
    }


def test_another_choice_is_another_fingerprint_even_at_the_same_rate(froze, planned):
    froze()
    first = planned().fingerprint
    froze(reasons=("Once more.",))

    assert planned().fingerprint != first


def test_a_study_without_an_earlier_one_has_no_such_key(load, manifest, prepared):
    assert "baseline" not in make_plan(load(), manifest, prepared).protocol


def test_check_tells_where_the_baseline_comes_from(
    froze, following, manifest, prepared, earlier_choices
):
    links, study_file = froze(), following()

    report = describe(study_file, make_plan(study_file, manifest, prepared), manifest)

    entry = f"entry {links[-1].digest[:12]} of its chain"
    assert report.baseline == (
        "Baseline from the frozen choice of study earlier: arm half, 0.125.",
        f"Frozen at {earlier_choices.FROZEN_AT}, {entry}. half is chosen.",
        "What that study answered: Yes: half is better.",
    )
    rate = next(each for each in report.settings if each.key == "training.learning_rate")
    assert (rate.value, rate.given) == (0.125, True)


def test_a_partial_and_a_spent_choice_are_warned_of(froze, planned):
    froze(open_trials=("double/1",), is_spent=True)

    partial, spent = planned().warnings[:2]
    assert partial == (
        "The choice of study earlier is partial: double/1 never came to an end there."
    )
    assert spent == (
        "Study earlier froze this choice after its test split had been opened: the baseline was "
        "not chosen blind to it."
    )


def test_a_test_split_that_the_earlier_study_has_opened_is_told(froze, planned, earlier_choices):
    froze(after=[earlier_choices.INTENT, earlier_choices.RESULT])

    assert planned().warnings[0] == (
        "The test split is the one that study earlier, which the baseline is from, opened at "
        "2026-05-02T10:00:00.000Z: losses on it have been seen, the baseline's settings among "
        "them. What was settled here after that was not settled blind to it."
    )


def test_an_opening_without_a_result_may_have_shown_losses(froze, planned, earlier_choices):
    froze(after=[earlier_choices.INTENT])

    assert planned().warnings[0].endswith("without a result: losses on it may have been seen.")


def test_another_test_split_is_not_warned_of(froze, following, manifest, prepared, earlier_choices):
    froze(after=[earlier_choices.INTENT, earlier_choices.RESULT])
    test = manifest.test.model_copy(update={"records_digest": "unseen"})

    plan = make_plan(following(), manifest.model_copy(update={"test": test}), prepared)

    assert not any("test split" in warning for warning in plan.warnings)


def test_a_study_on_record_goes_on_from_its_own_copy(froze, on_record, planned, earlier, own):
    links = froze()
    before = on_record()
    shutil.rmtree(earlier.path)

    assert planned().fingerprint == before.fingerprint
    assert kept_choice(own).entry == links[-1].digest
    assert recorded_study_file(own).study.learning_rate == 0.125


def test_check_says_that_a_choice_is_known_from_the_own_record_alone(
    froze, on_record, following, earlier, manifest, prepared
):
    froze()
    plan = on_record()
    shutil.rmtree(earlier.path)

    assert describe(following(), plan, manifest).baseline[-1] == (
        "So it stands on this study's own record, which goes on from that: the earlier study's "
        "run folder does not say it any more."
    )


def test_a_study_on_record_notices_that_the_earlier_choice_is_another_now(
    froze, on_record, planned
):
    froze()
    before = on_record()
    froze(arm="double")

    assert planned().fingerprint != before.fingerprint


def test_a_study_that_is_not_on_record_has_no_copy(froze, planned, earlier, own):
    froze()
    planned()

    assert kept_choice(own) is None


def test_a_copy_that_cannot_be_read_is_told(froze, on_record, own):
    froze()
    on_record()
    plan = json.loads(own.plan.read_text())
    plan["data"]["baseline"] = {"study": "earlier"}
    own.plan.write_text(json.dumps(plan))

    with pytest.raises(RunFolderError, match="does not say what the baseline was taken from"):
        recorded_study_file(own)
    own.plan.unlink()
    with pytest.raises(RunFolderError, match="the plan is gone that says which rate"):
        recorded_study_file(own)


def test_the_record_knows_of_a_later_opening_while_the_earlier_folder_is_there(
    froze, on_record, own, earlier, earlier_choices
):
    froze()
    plan = on_record()
    created = {"study": "second", "protocol": plan.fingerprint, "data": plan.data}
    links = [earlier_choices.link_after(None, EntryKind.STUDY_CREATED, created, at="now")]
    settings = recorded_study_file(own).study

    assert taken_by(links, settings, own).seen("sealed") is None
    froze(after=[earlier_choices.INTENT, earlier_choices.RESULT])
    assert "opened at 2026-05-02" in taken_by(links, settings, own).seen("sealed")
    shutil.rmtree(earlier.path)
    assert taken_by(links, settings, own).seen("sealed") is None


def test_the_plan_holds_no_path_of_the_earlier_study(froze, on_record, own, tmp_path):
    froze()
    on_record()

    assert str(tmp_path) not in own.plan.read_text()
    assert read_chain_file(own.chain) == ()
