"""Attaching metrics: the whole file or nothing, on record, and nothing else changes by it."""

import pytest

import sweeper
from sweeper.errors import DataError, StudyBusy, StudyConflict
from sweeper.sweep.attaching import attach_metrics
from sweeper.sweep.coordinator import only_coordinator


@pytest.fixture
def recorded(recorded_studies, tmp_path):
    return recorded_studies.finish(tmp_path)


@pytest.fixture
def attach(recorded, tmp_path):
    """Writes a file of metrics and attaches it."""

    def write_and_attach(content, *, replace=False, name="m.csv"):
        file = tmp_path / name
        file.write_text(content)
        return attach_metrics(recorded.folder, file, replace=replace)

    return write_and_attach


def values(recorded):
    frame = sweeper.metrics(recorded.file)
    return {(row.trial, row.metric): row.value for row in frame.itertuples()}


def interventions(recorded):
    with recorded.open() as store:
        return store.journal().entries


def test_what_a_file_holds_is_attached_with_its_source(attach, recorded):
    attached = attach("trial,em\nhalf/0,0.1\nbaseline/0,0.3\n")

    assert attached.added == (("half/0", "em"), ("baseline/0", "em"))
    assert values(recorded) == {("baseline/0", "em"): 0.3, ("half/0", "em"): 0.1}
    (entry,) = interventions(recorded)
    assert (str(entry.kind), entry.detail["source"]) == ("attach", "m.csv")
    assert entry.detail["values"] == [["half/0", "em", 0.1], ["baseline/0", "em", 0.3]]


def test_the_same_file_again_changes_nothing(attach, recorded):
    attach("trial,em\nhalf/0,0.1\n")
    before = sweeper.metrics(recorded.file)

    again = attach("trial,em\nhalf/0,0.1\n")

    assert (again.added, again.unchanged) == ((), (("half/0", "em"),))
    assert sweeper.metrics(recorded.file).equals(before)
    assert len(interventions(recorded)) == 1


def test_a_file_with_a_fault_leaves_nothing(attach, recorded):
    with pytest.raises(DataError, match="em is not a number"):
        attach("trial,em\nhalf/0,0.1\nbaseline/0,high\n")

    assert values(recorded) == {}
    assert interventions(recorded) == ()


def test_another_value_is_refused_and_nothing_of_its_file_is_attached(attach, recorded):
    attach("trial,em,f1\nhalf/0,0.1,0.5\n")

    with pytest.raises(StudyConflict) as refusal:
        attach("trial,em,f1\nhalf/0,0.2,0.6\nbaseline/0,0.3,\n")

    em, f1 = refusal.value.faults
    assert em.what == "em of half/0 has another value on record"
    assert (em.got, em.expected, em.where.rpartition("/")[2]) == ("0.2", "0.1", "m.csv:2")
    assert (f1.got, f1.expected) == ("0.6", "0.5")
    assert values(recorded) == {("half/0", "em"): 0.1, ("half/0", "f1"): 0.5}


def test_a_value_is_replaced_when_asked_for_and_the_old_one_stays_on_record(attach, recorded):
    attach("trial,em\nhalf/0,0.1\nbaseline/0,0.3\n")

    replaced = attach("trial,em\nhalf/0,0.2\nbaseline/0,0.3\n", replace=True, name="n.csv")

    assert replaced.replaced == {("half/0", "em"): 0.1}
    assert values(recorded) == {("baseline/0", "em"): 0.3, ("half/0", "em"): 0.2}
    sources = sweeper.metrics(recorded.file).set_index("trial")["source"].to_dict()
    assert sources == {"baseline/0": "m.csv", "half/0": "n.csv"}
    assert interventions(recorded)[1].detail["before"] == [["half/0", "em", 0.1]]


def test_a_journal_line_is_written_from_which_it_can_be_done_again(attach, recorded):
    attach("trial,em\nhalf/0,0.1\n")

    assert '"kind": "attach"' in recorded.folder.journal.read_text()


def test_nothing_is_attached_to_a_study_that_somebody_runs(attach, recorded):
    with only_coordinator(recorded.folder), pytest.raises(StudyBusy):
        attach("trial,em\nhalf/0,0.1\n")


def test_the_comparison_is_the_same_before_and_after(attach, recorded):
    before = sweeper.compare(recorded.file)

    attach("trial,em\nhalf/0,0.1\nbaseline/0,0.3\ndouble/2,9\n")

    assert sweeper.compare(recorded.file) == before
