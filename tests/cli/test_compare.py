"""`sweeper compare`: the answer in words first, then the numbers, in 80 columns."""

import dataclasses
import json

from sweeper.cli.compare import print_comparison
from sweeper.report.comparison import compare
from sweeper.selection.gates import Gate, GateBreak


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def test_the_answer_and_the_verdicts_come_first_in_words(sweeper, finished):
    shown = lines(sweeper("compare", "study.yaml").out)

    assert shown[0] == "Question: Is the rate too high?"
    assert shown[1].startswith("Answer:   No, provisionally: half (0.0001) is worse than baseline")
    assert shown[2:5] == ["", "Verdicts", "half: worse:provisional"]
    assert shown[5].startswith("half is worse than baseline: higher by 0.508 nats per target token")
    assert shown[6] == "double: unstable:3/3"
    assert shown[7].startswith("double reached a loss that is not finite in 3 of 3 seeds")


def test_losses_and_differences_fit_80_columns(sweeper, finished, narrow):
    ran = sweeper("compare", "study.yaml")

    shown = lines(ran.out)
    start = shown.index("Validation loss at the end, nats per target token, completed trials")
    assert shown[start + 1 : start + 5] == [
        "arm       learning_rate  completed  stopped  missing    mean  sd",
        "half      0.0001         3 of 3           0        0  2.0703  0.07",
        "baseline  0.0002         3 of 3           0        0  1.5625  0.062",
        "double    0.0004         0 of 3           3        0       -  -",
    ]
    assert shown[start + 7 : start + 10] == [
        "arm     pairs  difference  95 % interval       Holm p   lower in  retention",
        "half        3  +0.5078     +0.4884 to +0.5272  0.00016  0 of 3    passed",
        "double      0  -           -                   1        0 of 0    failed",
    ]
    assert "want of width" not in ran.err


def test_what_follows_says_how_sure_it_is_and_what_is_chosen(sweeper, finished):
    shown = lines(sweeper("compare", "study.yaml").out)

    titles = ["Notes", "Retention", "Range", "Resolution", "Time to target", "Choice"]
    assert [line for line in shown if line in titles] == titles
    assert "double skipped 3 of 6 windows." in shown
    assert (
        "half: with 3 seeds and differences that spread by 0.007812 (sd), a true difference of "
        "0.036 nats would be found in 4 studies of 5; 0.25 was declared to matter." in shown
    )
    assert shown[-1] == "baseline is kept: no other arm is shown to be better."


def test_when_arms_reached_the_target_is_told_in_a_short_section(sweeper, finished):
    shown = lines(sweeper("compare", "study.yaml").out)

    start = shown.index("Time to target")
    assert shown[start + 1 : start + 5] == [
        (
            "The target is 1.625 nats per target token, the highest final validation loss of a "
            "trial of baseline."
        ),
        (
            "baseline reached it in 3 of 3 seeds (3 at the last evaluation, unconfirmed); median: "
            "after 0 and by 30 target tokens (0 to 0.75 s of training)."
        ),
        "half reached it in 0 of 3 seeds; median: not reached, more than 30 target tokens.",
        "double reached it in 0 of 3 seeds; median: not reached.",
    ]


def test_what_describes_the_rates_stands_behind_where_the_best_one_lies(sweeper, finished):
    """Means 2.0703, 1.5625 and, of the stopped arm, the initial 2.5: on average 2.0443."""
    shown = lines(sweeper("compare", "study.yaml").out)

    start = shown.index("Range")
    assert shown[start + 1].endswith("the range is bracketed.")
    assert shown[start + 2].startswith(
        "Learning rate sensitivity: over the 3 rates from 0.0001 to 0.0004 an arm's loss is on "
        "average 0.4818 nats per target token above the lowest arm's"
    )
    assert shown[start + 3] == ""


def test_while_trials_are_missing_nothing_is_answered(sweeper, begun):
    shown = lines(sweeper("compare", "study.yaml").out)

    assert shown[1] == (
        "Answer:   Not shown. Nothing is chosen yet: 6 of 9 trials have neither completed nor "
        "been stopped."
    )
    assert "double: not known from these trials." in shown


def test_json_holds_the_comparison(sweeper, finished):
    found = json.loads(sweeper("compare", "study.yaml", "--json").out)

    assert found["question"] == "rate_too_high"
    assert [arm["arm"] for arm in found["arms"]] == ["half", "double"]
    assert found["arms"][0]["difference"]["mean"] == 0.5078125
    assert found["choice"]["arm"] == "baseline"


def test_a_frozen_choice_is_told_as_it_was_frozen(sweeper, frozen):
    ran = sweeper("compare", frozen.file)
    told = json.loads(sweeper("compare", frozen.file, "--json").out)["frozen"]

    shown = lines(ran.out)
    assert shown[1].startswith("Answer:   Yes: half (0.0001) is better than baseline")
    assert "Not as it was frozen" not in ran.out
    assert shown[-1].startswith("half is chosen: better than baseline")
    assert shown[-1].endswith(" It is frozen.")
    assert (told["arm"], told["not_as_frozen"]) == ("half", [])


def test_a_record_that_gives_another_choice_than_was_frozen_is_told_so(sweeper, frozen):
    """The gate on initial tensors is broken since: nothing would be chosen but the baseline."""
    before = lines(sweeper("compare", frozen.file).out)
    with frozen.open() as store:
        store._database.write(
            lambda c: c.exec_driver_sql(
                "UPDATE sweeper_attempt SET initial_digest = '00' WHERE cell = 'half/0'"
            )
        )

    shown = lines(sweeper("compare", frozen.file).out)
    told = json.loads(sweeper("compare", frozen.file, "--json").out)

    assert [shown[1], shown[-1]] == [before[1], before[-1]]
    assert shown[2].startswith(
        "Not as it was frozen: The record now gives the choice baseline; half was frozen. The "
        "record now gives another reason for the choice: baseline is kept"
    )
    assert shown[2].endswith("`sweeper audit STUDY` says what does not agree.")
    assert told["choice"]["arm"] == "baseline"
    assert told["frozen"]["arm"] == "half"
    assert len(told["frozen"]["not_as_frozen"]) == 3


def test_every_broken_gate_is_listed(finished, capsys):
    found = compare(finished.file)
    sentences = ("it started from other trainable tensors", "it read 52 records, baseline 53")
    breaks = tuple(
        GateBreak(gate=Gate.INITIAL_TENSORS, arm="half", seed=seed, sentence=sentence)
        for seed, sentence in enumerate(sentences)
    )
    half = dataclasses.replace(found.arms[0], breaks=breaks)

    print_comparison(dataclasses.replace(found, arms=(half, *found.arms[1:])))

    shown = lines(capsys.readouterr().out)
    start = shown.index("Gates that were broken")
    assert shown[start + 1 : start + 3] == [
        "half, seed 0: it started from other trainable tensors.",
        "half, seed 1: it read 52 records, baseline 53.",
    ]


def test_the_noise_floor_is_told_in_one_sentence_and_only_where_it_was_asked_for(
    sweeper, studies, tmp_path, monkeypatch
):
    recorded = studies.finish(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = lines(sweeper("compare", "study.yaml").out)
    studies.add_repeat(recorded)
    with recorded.open() as store:
        studies.complete(store, studies.REPEAT, losses=(2.5, 2.0, 1.5))

    shown = lines(sweeper("compare", "study.yaml").out)

    start = shown.index("Noise floor")
    assert "Noise floor" not in before
    assert shown[start + 1 : start + 3] == [
        (
            "The noise floor is 0: two runs of baseline with seed 0 agree to the last bit, in the "
            "loss of each of 3 windows, in the validation loss and in the final weights."
        ),
        "",
    ]
    assert [*shown[: start - 1], *shown[start + 2 :]] == before
