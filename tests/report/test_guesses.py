"""Guesses name a check that can be run as it stands, from early enough to tell something."""

from __future__ import annotations

import pytest

from sweeper.report.case import Case, WindowFacts
from sweeper.report.guesses import Subject, guesses
from sweeper.report.symptoms import Finding, Symptom


def window(number):
    return WindowFacts(
        window=number,
        target_tokens=50,
        tokens=100,
        learning_rate=0.001,
        loss=2.0,
        gradient_norm=0.5,
        is_nonfinite=False,
        clipped=False,
        ran=True,
        skip=None,
        seconds=1.0,
    )


CASE = Case(windows=[window(n) for n in range(1, 41)], retention_margin=0.1)


def commands(symptom, *, first=30, rate=0.02):
    finding = Finding(symptom=symptom, sentence="it is so", first_window=first, last_window=40)
    subject = Subject(study="study.yaml", trial="double/2", learning_rate=rate, case=CASE)
    return [" ".join(guess.command) for guess in guesses([finding], subject)]


@pytest.mark.parametrize("symptom", list(Symptom))
def test_every_symptom_has_a_guess_with_a_command_about_this_study(symptom):
    found = commands(symptom)

    assert found
    assert all("study.yaml" in command.split() for command in found)


def test_a_spike_is_replayed_from_its_window_and_with_half_the_rate_from_sixteen_before():
    """Of 40 windows the last 11 begin with 30, the last 27 with 14."""
    assert commands(Symptom.LOSS_SPIKE) == [
        "replay study.yaml double/2 --windows 11",
        "replay study.yaml double/2 --windows 27 --set training.learning_rate=0.01",
    ]


def test_a_replay_begins_with_the_first_window_at_the_earliest():
    assert commands(Symptom.LOSS_SPIKE, first=5)[1].split()[4] == "40"


def test_a_rise_is_replayed_from_the_lowest_loss_on():
    assert commands(Symptom.RISING_LOSS) == [
        "replay study.yaml double/2 --windows 11 --set training.learning_rate=0.01"
    ]


def test_what_is_not_finite_is_replayed_from_before_it_began():
    assert commands(Symptom.NONFINITE)[0] == "replay study.yaml double/2"


def test_overflows_are_replayed_in_bfloat16():
    assert commands(Symptom.SCALER_OVERFLOWS, first=1) == [
        "replay study.yaml double/2 --windows 40 --set training.precision=bfloat16"
    ]


def test_ten_times_the_rate_is_proposed_only_where_that_is_a_rate():
    assert commands(Symptom.FLAT_LOSS, rate=0.02) == [
        "replay study.yaml double/2 --windows 40 --set training.learning_rate=0.2",
        "compare study.yaml",
    ]
    assert commands(Symptom.FLAT_LOSS, rate=0.2) == ["compare study.yaml"]


def test_without_a_known_rate_none_is_proposed():
    assert commands(Symptom.RISING_LOSS, rate=None) == []


def test_guesses_come_in_the_order_of_their_findings():
    findings = [
        Finding(symptom=symptom, sentence="")
        for symptom in (Symptom.ZERO_TARGETS, Symptom.RETENTION_DAMAGE)
    ]
    subject = Subject(study="s", trial="t", learning_rate=0.1, case=CASE)

    assert [guess.symptom for guess in guesses(findings, subject)] == [
        Symptom.ZERO_TARGETS,
        Symptom.RETENTION_DAMAGE,
    ]
