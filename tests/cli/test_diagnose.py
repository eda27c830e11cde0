"""`sweeper diagnose`: findings apart from guesses, and commands that can be run as they stand."""

import json


def test_a_finding_and_its_guesses_stand_apart(sweeper, begun):
    ran = sweeper("diagnose", "study.yaml", "double/0")

    assert ran.status == 0
    assert ran.out.splitlines() == [
        "double/0 stopped (nonfinite_loss): the loss of window 2 was nan",
        "Looked at 2 windows, 1 validation evaluation, 1 retention evaluation, 1 attempt.",
        "",
        "What the record shows",
        "- nonfinite: the loss was not finite in window 2, so no update was made.",
        "",
        "What may be behind it (guesses), and what would tell",
        (
            "- nonfinite: perhaps one record, or one module, computes something that is not finite;"
            " the replay names micro-batch, records, module and tensor; then leave a record out:"
        ),
        "    sweeper replay study.yaml double/0",
        (
            "- nonfinite: perhaps the rate is too high; with half of it, from before it began, it"
            " would not come again:"
        ),
        "    sweeper replay study.yaml double/0 --windows 2 --set training.learning_rate=0.0002",
        "",
        (
            "Looked for and not found: loss spike, rising loss, frequent clipping, scaler"
            " overflows, stalled updates, zero targets, flat loss, retention damage, throughput"
            " collapse."
        ),
    ]
    assert ran.err == "Next: sweeper replay study.yaml double/0\n"


def test_nothing_found_is_said_with_what_was_looked_at(sweeper, begun):
    ran = sweeper("diagnose", "study.yaml", "baseline/0")

    assert ran.out.splitlines()[1:3] == [
        "Looked at 3 windows, 2 validation evaluations, 2 retention evaluations, 2 attempts.",
        "Nothing stands out.",
    ]
    assert "guesses" not in ran.out
    assert ran.err == "Next: sweeper show study.yaml baseline/0\n"


def test_an_open_trial_is_told_as_such(sweeper, begun):
    assert sweeper("diagnose", "study.yaml", "double/2").out.startswith("double/2 waiting\n")


def test_json_holds_the_same(sweeper, begun):
    found = json.loads(sweeper("diagnose", "study.yaml", "double/0", "--json").out)

    assert [finding["symptom"] for finding in found["findings"]] == ["nonfinite"]
    assert found["findings"][0]["numbers"] == {"windows": 1}
    assert found["guesses"][0]["command"] == ["replay", "study.yaml", "double/0"]
    assert found["looked_at"]["windows"] == 2
    assert "loss_spike" in found["not_found"]
    assert found["trial"]["reason"] == "nonfinite_loss"


def test_an_unknown_trial_is_the_user_s_mistake(sweeper, begun):
    ran = sweeper("diagnose", "study.yaml", "doubel/0")

    assert ran.status == 2
    assert "Did you mean double/0?" in ran.err
