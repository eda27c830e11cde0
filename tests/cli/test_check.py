"""`sweeper check`: the report as a person reads it. The flow tests run the command itself."""

import dataclasses
import json

import pytest

from sweeper.cli.check import print_report
from sweeper.cli.plain import plain
from sweeper.data.manifest import Dropped, DropReason, Overlap
from sweeper.study.arms import ArmPlan
from sweeper.study.checking import CheckReport, Setting, SplitSummary
from sweeper.study.exposure import ExposurePlan
from sweeper.study.pending import NotYet
from sweeper.study.plan import Cell
from sweeper.study.resolution import resolution_of
from sweeper.study.spec import PlannedExposure
from sweeper.training.report import ModelReport


def exposure(seed):
    return ExposurePlan(
        seed=seed,
        planned=PlannedExposure(
            records=53,
            target_tokens=600,
            input_tokens=1794 + seed,
            windows=13,
            last_window_target_tokens=50,
            record_digest="d",
        ),
        epochs=2,
        fewest_target_tokens=29,
        most_target_tokens=60,
        last_window_records=5,
        counter="updates",
        warmup=2,
        warmup_share=2 / 13,
        evaluations=4,
    )


REPORT = CheckReport(
    name="rates",
    fingerprint="f" * 64,
    question="Is the rate too high?",
    factor="training.learning_rate",
    settings=(
        Setting(key="name", value="rates", given=True),
        Setting(key="seeds", value=[0, 1, 2, 3], given=True),
        Setting(key="data.packing", value=None, given=False),
        Setting(key="training.clip_norm", value=1.0, given=False),
    ),
    budget_target_tokens=600,
    epoch_target_tokens=457,
    arms=(
        ArmPlan(
            name="baseline",
            value=2e-3,
            learning_rate_peak=2e-3,
            learning_rate_final=0.0,
            lr_x_weight_decay=2e-5,
        ),
        ArmPlan(
            name="double",
            value=4e-3,
            learning_rate_peak=4e-3,
            learning_rate_final=0.0,
            lr_x_weight_decay=4e-5,
        ),
    ),
    cells=(
        Cell(id="baseline/0", arm="baseline", seed=0, value=2e-3),
        Cell(id="double/0", arm="double", seed=0, value=4e-3),
    ),
    exposures=tuple(exposure(seed) for seed in range(4)),
    splits=(
        SplitSummary(
            name="train",
            records=40,
            target_tokens=457,
            input_tokens=1357,
            longest_tokens=42,
            cut=0,
            dropped=(Dropped(reason=DropReason.NO_TARGETS, count=3, record_numbers=(4, 9)),),
            digest="1b0d2ae74cb8aaaa",
        ),
        SplitSummary(
            name="test",
            records=8,
            target_tokens=None,
            input_tokens=None,
            longest_tokens=None,
            cut=None,
            dropped=(),
            digest="f33d8946a4e4aaaa",
        ),
    ),
    overlaps=(
        Overlap(
            kind="prompt", split="train", held_out="validation", count=2, record_numbers=(3, 7)
        ),
        Overlap(kind="exact", split="train", held_out="test", count=0, record_numbers=()),
    ),
    notices=("test: 8 records, sealed",),
    model=ModelReport(
        parameters=1000,
        trainable_parameters=100,
        adapted_modules=("layers.0.q_proj", "layers.0.v_proj", "layers.1.q_proj"),
        embedding_rows=258,
        max_positions=None,
        tied_embeddings=False,
    ),
    warnings=("lr x weight_decay differs between the arms.",),
    not_yet_in_effect=(NotYet(key="run.deadline", written="null", capability="a deadline"),),
    resolution=resolution_of(seeds=4, comparisons=1),
)


@pytest.fixture
def printed(capsys, narrow):
    def report(**changes):
        print_report(dataclasses.replace(REPORT, **changes))
        captured = capsys.readouterr()
        assert captured.err == "", "everything fits 80 columns"
        return [line.rstrip() for line in captured.out.splitlines()]

    return report


def part(lines, title):
    """The lines under a title, up to the next blank line."""
    start = lines.index(title) + 1
    return lines[start : ([*lines, ""]).index("", start)]


def test_settings_are_echoed_those_of_the_file_first(printed):
    lines = printed()

    assert part(lines, "Settings of the file") == [
        "name                    rates",
        "seeds                   [0, 1, 2, 3]",
    ]
    assert part(lines, "Defaults") == ["training.clip_norm      1.0"]


def test_a_long_setting_is_printed_whole(printed):
    question = Setting(key="question.text", value=100 * "x", given=True)

    assert part(printed(settings=(question,)), "Settings of the file") == [
        f"question.text           {100 * 'x'}"
    ]


def test_what_is_off_is_named_on_one_line(printed):
    assert part(printed(), "Off (null)") == ["data.packing"]


def test_arms_show_peak_final_and_the_product_with_the_decay(printed):
    assert part(printed(), "Arms: training.learning_rate") == [
        "arm       peak   final  peak x weight_decay",
        "baseline  0.002  0      2e-05",
        "double    0.004  0      4e-05",
    ]


def test_splits_are_counted_and_of_the_sealed_one_only_the_digest_is_known(printed):
    assert part(printed(), "Data") == [
        "split  records  target tokens  input tokens  longest  cut  digest",
        "train       40            457          1357       42    0  1b0d2ae74cb8",
        "test         8              -             -        -    -  f33d8946a4e4",
    ]


def test_exposures_stand_seed_beside_seed_three_abreast(printed):
    lines = printed()

    first = lines.index("Exposure of every trial")
    second = lines.index("Exposure of every trial", first + 1)
    assert lines[first + 1 : first + 13] == [
        "                       seed 0     seed 1     seed 2",
        "target tokens             600        600        600",
        "input tokens             1794       1795       1796",
        "records                    53         53         53",
        "epochs                      2          2          2",
        "windows                    13         13         13",
        "targets per update   29 to 60   29 to 60   29 to 60",
        "mean of them             46.2       46.2       46.2",
        "last window         5 records  5 records  5 records",
        "warm-up             2 updates  2 updates  2 updates",
        "warm-up's share         15.4%      15.4%      15.4%",
        "evaluations                 4          4          4",
    ]
    assert lines[second + 1].split() == ["seed", "3"]


def test_packed_rows_are_counted_and_their_fill_is_told(printed):
    seed = exposure(0)
    planned = seed.planned.model_copy(update={"rows": 20})
    packed = dataclasses.replace(seed, planned=planned, last_window_rows=2, row_fill=1794 / 2560)

    lines = printed(exposures=(packed,))

    first = lines.index("records                    53")
    assert lines[first + 1 : first + 3] == [
        "packed rows                20",
        "rows are full to        70.1%",
    ]
    assert "last window            2 rows" in lines


def test_one_update_of_warm_up_is_one_update(printed):
    brief = dataclasses.replace(exposure(0), warmup=1)

    lines = printed(exposures=(brief,))

    assert "warm-up              1 update" in lines


def test_a_warm_up_over_target_tokens_is_given_in_them(printed):
    by_tokens = dataclasses.replace(
        exposure(0), counter="target_tokens", warmup=30, warmup_share=30 / 600
    )

    lines = [" ".join(line.split()) for line in printed(exposures=(by_tokens,))]

    first = lines.index("warm-up 30 target tokens")
    assert lines[first + 1] == "warm-up's share 5.0%"


def test_records_left_out_are_counted_and_the_first_are_numbered(printed):
    assert part(printed(), "Left out") == ["train: 3 no targets (records 4, 9, ...)"]


def test_only_overlaps_that_exist_are_told(printed):
    assert part(printed(), "Overlap between splits") == [
        "train and validation: 2 equal prompts, other answers (records 3, 7)"
    ]


def test_no_overlap_is_said_of_the_splits_that_were_looked_at(printed):
    assert part(printed(overlaps=REPORT.overlaps[1:]), "Overlap between splits") == [
        "train, test: none"
    ]


def test_a_test_split_known_by_its_digest_alone_is_not_said_to_share_nothing(printed):
    train, test = REPORT.splits
    retention = dataclasses.replace(train, name="retention")
    splits = (train, retention, dataclasses.replace(test, records=None))

    assert part(printed(splits=splits, overlaps=()), "Overlap between splits") == [
        "train, retention: none; test: not yet there"
    ]
    assert part(printed(splits=splits), "Overlap between splits") == [
        "train and validation: 2 equal prompts, other answers (records 3, 7)",
        "test: not yet there",
    ]


def test_the_model_is_told_by_its_size_and_its_adapted_modules_by_kind(printed):
    assert part(printed(), "Model") == [
        (
            "1,000 parameters, 100 trained (10.00%); embedding of 258 rows; an undeclared "
            "number of positions"
        ),
        "Adapter on 3 modules: 2 q_proj, 1 v_proj",
    ]


def test_what_asks_for_attention_comes_last(printed):
    lines = printed()

    titles = ["Not yet in effect", "What 4 seeds can show", "Warnings", "Fingerprint"]
    assert [line for line in lines if line in titles] == titles
    assert part(lines, "Not yet in effect") == ["run.deadline: null (a deadline)"]
    assert part(lines, "Warnings") == ["lr x weight_decay differs between the arms."]


def test_a_part_without_content_is_left_out(printed):
    lines = printed(warnings=(), model=None, not_yet_in_effect=())

    assert not {"Warnings", "Model", "Not yet in effect"} & set(lines)


def test_one_seed_is_one_seed(printed):
    lines = printed(exposures=REPORT.exposures[:1])

    assert "What 1 seed can show" in lines


def test_the_report_is_plain_json():
    assert json.loads(json.dumps(plain(REPORT), allow_nan=False)) == plain(REPORT)
    assert plain(REPORT)["exposures"][0]["planned"]["target_tokens"] == 600


def test_what_the_repeat_is_for_is_told_where_there_is_one(printed):
    assert part(printed(noise_floor="It runs once more."), "Noise floor") == ["It runs once more."]
    assert "Noise floor" not in printed()


@pytest.mark.parametrize(
    ("factor", "values", "lines"),
    [
        (
            "training.precision",
            {"precision": "bfloat16"},
            [
                "arm       precision  peak   final  peak x weight_decay",
                "baseline  bfloat16   0.002  0      2e-05",
            ],
        ),
        (
            "training.records_per_update",
            {"records_per_update": 4},
            [
                "arm       records per update  peak   final  peak x weight_decay",
                "baseline                   4  0.002  0      2e-05",
            ],
        ),
    ],
)
def test_what_is_compared_stands_beside_the_arm_where_it_is_not_the_rate(
    printed, factor, values, lines
):
    arm = dataclasses.replace(REPORT.arms[0], **values)

    assert part(printed(factor=factor, arms=(arm,)), f"Arms: {factor}") == lines
