"""`sweeper select`: what it prints, and when it refuses."""

from __future__ import annotations

import json

import pytest


def test_the_choice_its_weights_and_the_head_are_printed(sweeper, decided):
    ran = sweeper("select", decided.file)

    lines = ran.out.splitlines()
    assert ran.status == 0
    assert lines[0] == "Frozen: half"
    assert lines[1].startswith("half is chosen: better than baseline by 0.0106 nats")
    assert lines[2].startswith("Answer: Yes: half (0.0001) is better than baseline")
    weights = [
        line.split() for line in lines if line.startswith("  half/") or "  baseline/" in line
    ]
    assert [trial for trial, *_ in weights][:3] == ["half/0", "baseline/0", "half/1"]
    assert [len(digest) for _, _, digest in weights] == [64] * 10
    assert "  and the untrained model, as 5 seeds began with it" in lines
    last = json.loads(decided.folder.chain.read_text().splitlines()[-1])
    assert f"Head of the chain: {last['digest']}" in lines
    assert ran.err.splitlines()[-1] == f"Next: sweeper report {decided.file}"


def test_a_dry_run_prints_the_same_and_changes_nothing(sweeper, decided):
    ran = sweeper("select", decided.file, "--dry-run")

    assert ran.out.startswith("Would freeze: half\n")
    assert "Head of the chain" not in ran.out
    assert not decided.folder.chain.exists()
    assert ran.err.splitlines()[-1] == f"Next: sweeper select {decided.file}"


def test_where_there_is_a_test_split_its_opening_is_named_as_a_dry_run_first(sweeper, decided):
    settings = decided.folder.recorded_study
    text = settings.read_text(encoding="utf-8")
    test = "  test: {path: test.jsonl}\n  retention: {"
    settings.write_text(text.replace("  retention: {", test), encoding="utf-8")

    ran = sweeper("select", decided.file)

    assert ran.err.splitlines()[-1] == (
        f"Next: sweeper open-test {decided.file} --dry-run   (then with --yes, once)"
    )


def test_nothing_is_frozen_by_a_rule_that_was_not_agreed_on(sweeper, decided):
    settings = decided.folder.recorded_study
    text = settings.read_text(encoding="utf-8")
    other = text.replace("selection: {", "selection: {smallest_difference: 1.0, ")
    settings.write_text(other, encoding="utf-8")

    ran = sweeper("select", decided.file)

    assert ran.status == 2
    assert "got selection.smallest_difference 1.0; expected selection.smallest_d" in ran.err
    with decided.open() as store:
        assert store.frozen() is None


def test_as_json_it_is_the_entry_of_the_chain(sweeper, decided):
    printed = json.loads(sweeper("select", decided.file, "--json").out)

    last = json.loads(decided.folder.chain.read_text().splitlines()[-1])
    assert printed.pop("digest") == last["digest"]
    assert printed == {k: v for k, v in last["entry"].items() if k not in ("seq", "type", "at")}


def test_a_second_time_it_is_refused_until_there_is_a_reason(sweeper, frozen):
    refused = sweeper("select", frozen.file)

    assert refused.status == 2
    assert refused.err.splitlines()[0] == (
        "error: the choice is frozen already (got half). --reason TEXT freezes it again, which is "
        "counted and shown."
    )
    assert sweeper("select", frozen.file, "--reason", "  ").status == 2

    again = sweeper("select", frozen.file, "--reason", "a typo", "--dry-run").out.splitlines()

    assert "Frozen 2 times by now." in again
    assert "Reasons given: a typo." in again


@pytest.fixture
def without_seed_4(founded_only):
    """All trials of four seeds are completed."""
    for seed, loss in enumerate((1.602, 1.598, 1.611, 1.605)):
        founded_only.complete(f"baseline/{seed}", loss)
        founded_only.complete(f"half/{seed}", loss)
    return founded_only.file


def test_a_partial_choice_says_what_it_leaves_out(sweeper, without_seed_4):
    refused = sweeper("select", without_seed_4)
    ran = sweeper("select", without_seed_4, "--partial", "--reason", "no machine", "--dry-run")

    assert refused.status == 2
    assert "baseline/4, half/4: trials have not been brought to an end" in refused.err
    lines = ran.out.splitlines()
    assert lines[0] == "Would freeze: baseline"
    assert "Partial: baseline/4 and half/4 never came to an end." in lines
    assert "Without weights, and not evaluated: baseline/4." in lines
    assert "Reasons given: no machine." in lines
    assert ran.err.splitlines()[-1] == (
        f"Next: sweeper select {without_seed_4} --partial --reason 'no machine'"
    )
