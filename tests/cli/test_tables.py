"""`sweeper trials` and `sweeper updates` as a person sees them."""

import pytest


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def test_trials_fit_80_columns_with_what_matters_most(sweeper, begun, narrow):
    ran = sweeper("trials", "study.yaml")

    assert lines(ran.out) == [
        "                                                                           last_",
        "            learning_                             initial_  validation_  finite_",
        "trial            rate  outcome    reason              loss         loss     loss",
        "baseline/0     0.0002  completed  budget_reached    2.5000       1.5000   1.5000",
        "half/0         0.0001  completed  budget_reached    2.5000       1.7500   1.7500",
        "double/0       0.0004  stopped    nonfinite_loss    2.5000            -   2.6250",
        "baseline/1     0.0002  failed     code_error             -            -        -",
        "half/1         0.0001  lost       killed                 -            -        -",
        "double/1       0.0004  running    -                 2.5000            -   2.3750",
        "baseline/2     0.0002  waiting    -                      -            -        -",
        "half/2         0.0001  waiting    -                      -            -        -",
        "double/2       0.0004  waiting    -                      -            -        -",
    ]
    assert ran.err.splitlines()[0] == (
        "Not shown, for want of width: retention_loss, target_tokens_read, updates, skipped, "
        "clipped, wall_seconds, attempts"
    )


def test_trials_show_all_usual_columns_where_there_is_room(sweeper, begun):
    ran = sweeper("trials", "study.yaml")

    header, first, *_ = ran.out.splitlines()
    assert header.split() == [
        "trial",
        "learning_rate",
        "outcome",
        "reason",
        "initial_loss",
        "validation_loss",
        "last_finite_loss",
        "retention_loss",
        "target_tokens_read",
        "updates",
        "skipped",
        "clipped",
        "wall_seconds",
        "attempts",
    ]
    assert first.split()[8:] == ["30", "3", "0", "1", "14.5", "2"]
    assert ran.err == "Next: sweeper compare study.yaml\n"


def test_updates_of_one_trial_fit_80_columns(sweeper, begun, narrow):
    ran = sweeper("updates", "study.yaml", "double/0")

    assert lines(ran.out) == [
        "                                     target_",
        "                          learning_  tokens_  gradient_",
        "trial     window    loss       rate     read       norm  clipped  ran",
        "double/0       1  2.6250     0.0002       10        0.1  no       yes",
        "double/0       2       -          -       20          -  no       no",
    ]
    assert ran.err == (
        "Not shown, for want of width: skip, updates, target_tokens, seconds\n"
        "Next: sweeper show study.yaml double/0\n"
    )


def test_updates_of_all_trials_are_shown_without_one(sweeper, begun):
    ran = sweeper("updates", "study.yaml", "--columns", "trial,window,ran")

    assert lines(ran.out)[1:] == [
        "baseline/0       1  yes",
        "baseline/0       2  yes",
        "baseline/0       3  yes",
        "half/0           1  yes",
        "half/0           2  yes",
        "half/0           3  yes",
        "double/0         1  yes",
        "double/0         2  no",
        "double/1         1  yes",
    ]


def test_columns_that_were_asked_for_are_all_shown(sweeper, finished, narrow):
    ran = sweeper("trials", "study.yaml", "--columns", "trial,detail,fingerprint")

    assert ran.out.startswith(
        "trial                   baseline/0\n"
        "detail                  read 30 of 30 target tokens\n"
        f"fingerprint             {'f' * 64}\n"
        "\n"
        "trial                   half/0\n"
    )
    assert ran.err == "Next: sweeper compare study.yaml\n"


@pytest.mark.parametrize("command", ["updates", "show"])
def test_an_unknown_trial_is_refused_with_the_nearest(sweeper, begun, command):
    ran = sweeper(command, "study.yaml", "doubl/0")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (
        "error: the study has no trial doubl/0 (expected baseline/0, half/0, double/0, "
        "baseline/1, half/1, double/1, baseline/2, half/2, double/2). Did you mean double/0?\n"
    )
