"""`sweeper attach`: what it says, and where metrics stand afterwards."""

import pytest


@pytest.fixture
def study(studies, tmp_path, monkeypatch):
    """A study that is done, named from its own folder, and a file of metrics beside it."""
    recorded = studies.finish(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.csv").write_text("trial,em\nhalf/0,0.5\nbaseline/0,0.25\n")
    return recorded


def test_it_says_how_many_values_and_what_they_are(sweeper, study):
    ran = sweeper("attach", "study.yaml", "m.csv")

    assert (ran.status, ran.out) == (
        0,
        "Values: 2 attached. They are secondary, not selected on.\n",
    )
    assert ran.err == "Next: sweeper metrics study.yaml\n"


def test_the_same_file_again_is_no_mistake(sweeper, study):
    sweeper("attach", "study.yaml", "m.csv")

    assert sweeper("attach", "runs/rates", "m.csv").out.startswith("Values: 2 there already.")


def test_another_value_takes_replace(sweeper, study, tmp_path):
    sweeper("attach", "study.yaml", "m.csv")
    (tmp_path / "n.csv").write_text("trial,em\nhalf/0,0.75\n")

    refused = sweeper("attach", "study.yaml", "n.csv")
    replaced = sweeper("attach", "study.yaml", "n.csv", "--replace")

    assert refused.status == 2
    assert refused.err == (
        "error: n.csv:2: em of half/0 has another value on record (got 0.75; expected 0.5). "
        "`sweeper attach ... --replace` puts the new one there, and keeps the old one on record.\n"
    )
    assert replaced.out.startswith("Values: 1 replaced.")


def test_metrics_stand_below_the_trials_in_a_block_of_their_own(sweeper, study):
    sweeper("attach", "study.yaml", "m.csv")

    lines = [line.rstrip() for line in sweeper("trials", "study.yaml").out.splitlines()]

    block = lines[lines.index("Metrics that users attached: secondary, not selected on") :]
    assert block[1:4] == [
        "trial       metric_em",
        "baseline/0       0.25",
        "half/0            0.5",
    ]
    assert "metric_em" not in lines[0]


def test_metrics_are_the_last_columns_of_trials_for_programs_and_papers(sweeper, study):
    sweeper("attach", "study.yaml", "m.csv")

    assert sweeper("trials", "study.yaml", "--csv").out.splitlines()[0].endswith(",metric_em")
    text = sweeper("trials", "study.yaml", "--markdown").out
    assert "| metric_em |" in text
    assert (
        "Columns that begin with metric\\_ are the user's own: secondary, not selected on." in text
    )


def test_the_table_of_metrics_has_its_title(sweeper, study):
    sweeper("attach", "study.yaml", "m.csv")

    first, header, row, *_ = sweeper("metrics", "study.yaml").out.splitlines()

    assert first == "secondary, not selected on"
    assert header.split() == ["trial", "metric", "value", "source", "at"]
    assert row.split()[:4] == ["baseline/0", "em", "0.25", "m.csv"]
