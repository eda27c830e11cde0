"""A follow-up study on record, whose earlier study's folder is gone: what people are told of it."""

import json

import pytest

from sweeper.cli.tables import ARMS, COST, EXPOSURE, TRIALS, _shown
from sweeper.report.auditing import audit
from sweeper.report.columns import Table, text
from sweeper.study.taken_choice import BASELINE_FACTS, TakenChoice

pytestmark = pytest.mark.costly

ORIGIN = "from the frozen choice of study first: arm half, 0.0002"
SEEN = (
    "The test split is the one that study first, which the baseline is from, opened at "
    "2026-05-02T10:00:00.000Z: losses on it have been seen, the baseline's settings among them."
)


@pytest.fixture
def taken(decided_studies):
    return TakenChoice(
        study="first",
        arm="half",
        learning_rate=2e-4,
        fingerprint="f" * 64,
        entry="e" * 64,
        at="2026-05-01T10:00:00.000Z",
        sentence="half is chosen.",
        answer="Yes.",
        test=decided_studies[0].TEST_DIGEST,
        test_begun_at="2026-05-02T09:59:00.000Z",
        test_opened_at="2026-05-02T10:00:00.000Z",
    )


@pytest.fixture
def follow_up(decided_studies, taken, monkeypatch, tmp_path):
    """Puts the study of `decided_studies.py` on record as one that took its rate."""
    module, recorded, _ = decided_studies
    facts_of, file = module.data_facts, recorded.STUDY_FILE
    file = file.replace("{learning_rate: 2e-4, ", "{").replace(
        "tune: lora", "tune: lora\nbaseline: {from: runs/first}"
    )

    def put(in_protocol=None):
        agreed = taken.in_protocol() if in_protocol is None else in_protocol
        monkeypatch.setattr(recorded, "STUDY_FILE", file)
        monkeypatch.setattr(module, "TAKEN", agreed)
        taken_too = {BASELINE_FACTS: taken.to_facts()}
        monkeypatch.setattr(module, "data_facts", lambda made: {**facts_of(made), **taken_too})
        return module.decided(tmp_path, recorded)

    return put


def findings(study):
    """What an audit finds of what was agreed and prepared."""
    checks = {check.about: check.findings for check in audit(study.file).checks}
    return {about: checks[about] for about in ("The protocol", "The prepared data")}


def test_every_reading_command_says_where_the_baseline_is_from(sweeper, follow_up, tmp_path):
    study = follow_up()
    (tmp_path / "test.jsonl").write_text("{}\n")

    shown = sweeper("compare", study.file).out.splitlines()
    told = json.loads(sweeper("compare", study.file, "--json").out)
    rates = sweeper("arms", study.file, "--markdown").out
    selected = sweeper("select", study.file)
    planned = sweeper("open-test", study.file, "--dry-run", "--test", tmp_path / "test.jsonl").out

    assert shown[2] == f"Baseline: {ORIGIN}"
    assert (told["baseline_from"]["study"], told["baseline_from"]["arm"]) == ("first", "half")
    assert "0.0002" in rates
    assert selected.status == 0
    assert SEEN in " ".join(planned.split())


def test_the_report_and_the_audit_know_the_choice(sweeper, follow_up):
    study = follow_up()

    sweeper("report", study.file)
    page = (study.folder.path / "report" / "report.html").read_text()

    assert ORIGIN in page
    assert "Test split seen before" in page
    assert "is the frozen choice of study first, its arm half: what that study could not" in page
    assert findings(study) == {"The protocol": (), "The prepared data": ()}


def test_the_frozen_choice_of_a_follow_up_is_computed_anew_to_the_same(sweeper, follow_up):
    study = follow_up()
    assert sweeper("select", study.file).status == 0

    checks = {check.about: check for check in audit(study.file).checks}

    assert checks["The frozen choice"].looked_at == "half, with 10 checkpoints"
    assert checks["The frozen choice"].findings == ()


def test_an_audit_finds_a_choice_that_is_not_the_agreed_one(follow_up, taken):
    study = follow_up({**taken.in_protocol(), "arm": "double"})

    assert findings(study)["The protocol"] == (
        "The chain has the baseline from another choice than the protocol on record.",
    )


@pytest.mark.parametrize(
    ("listing", "names", "first"),
    [
        (ARMS, "arm round records_per_update updates", ("arm", "records_per_update", "updates")),
        (TRIALS, "trial arm seed records_per_update", ("trial", "records_per_update", "outcome")),
        (EXPOSURE, "trial arm seed records_per_update updates", ("trial", "updates", "outcome")),
        (COST, "trial arm seed records_per_update updates", ("trial", "updates", "outcome")),
    ],
    ids=["arms", "trials", "exposure", "cost"],
)
def test_the_number_of_updates_stands_beside_a_factor_that_changes_it(listing, names, first):
    table = Table(rows=(), columns=[text(name, "") for name in names.split()])

    assert _shown(listing, table)[:3] == first


def test_for_rates_the_columns_are_the_usual_ones():
    table = Table(rows=(), columns=[text(name, "") for name in ("trial", "learning_rate")])

    assert _shown(TRIALS, table) == TRIALS.shown
