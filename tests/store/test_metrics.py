"""Metrics that users attach: all or none, and the same again from what the journal says."""

import pytest

from sweeper.store.metrics import Source
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.every_database

FIRST = Source(name="m.csv", sha256="a" * 64)
SECOND = Source(name="n.csv", sha256="b" * 64)


def shown(store):
    return [(row["trial"], row["metric"], row["value"], row["source"]) for row in store.metrics()]


def test_metrics_come_in_plan_order_and_by_name(store):
    store.attach({("double/0", "f1"): 2.0, ("double/0", "em"): 1.0}, FIRST, replace=False)
    store.attach({("baseline/0", "f1"): 0.1 + 0.2}, SECOND, replace=False)

    assert shown(store) == [
        ("baseline/0", "f1", 0.30000000000000004, "n.csv"),
        ("double/0", "em", 1.0, "m.csv"),
        ("double/0", "f1", 2.0, "m.csv"),
    ]


def test_one_value_that_differs_keeps_all_out(store):
    store.attach({("double/0", "em"): 1.0}, FIRST, replace=False)

    found = store.attach(
        {("double/0", "em"): 2.0, ("baseline/0", "em"): 3.0}, SECOND, replace=False
    )

    assert not found.is_done
    assert found.replaced == {("double/0", "em"): 1.0}
    assert shown(store) == [("double/0", "em", 1.0, "m.csv")]
    assert len(store.journal().entries) == 1


def test_a_value_that_is_there_already_keeps_its_first_source(store):
    store.attach({("double/0", "em"): 1.0}, FIRST, replace=False)

    found = store.attach({("double/0", "em"): 1.0, ("baseline/0", "em"): 3.0}, SECOND, replace=True)

    assert (found.unchanged, found.added) == ((("double/0", "em"),), (("baseline/0", "em"),))
    assert shown(store) == [
        ("baseline/0", "em", 3.0, "n.csv"),
        ("double/0", "em", 1.0, "m.csv"),
    ]


def test_what_was_attached_is_there_again_in_a_record_made_anew(store, study, cells, tmp_path):
    store.attach({("double/0", "em"): 1.0, ("double/1", "em"): 0.1}, FIRST, replace=False)
    store.attach({("double/0", "em"): 2.0}, SECOND, replace=True)

    with StudyStore.create(f"sqlite:///{tmp_path}/anew.db") as anew:
        anew.record_study(study)
        anew.add_cells(cells)
        restored = [anew.restored.entry(entry) for entry in store.journal().entries]

        assert restored == [True, True]
        assert anew.metrics() == store.metrics()
        assert anew.journal() == store.journal()
