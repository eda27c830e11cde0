"""A connection of Optuna's that ends at a COMMIT: no trial is added twice, none stays behind."""

import pytest

from sweeper.errors import StoreUnavailable
from sweeper.records import OutcomeKind, Reason
from sweeper.store.store import StudyStore
from sweeper.study.plan import Cell
from sweeper.sweep.optuna_study import Ending, OptunaStudy

pytestmark = pytest.mark.costly

CELLS = (
    Cell(id="baseline/0", arm="baseline", seed=0, value=2e-4),
    Cell(id="double/0", arm="double", seed=0, value=4e-4),
)
FAILED = Ending(
    outcome=OutcomeKind.FAILED,
    reason=Reason.CODE_ERROR,
    detail="KeyError",
    evidence={},
    validation_loss=None,
)


@pytest.fixture
def mirror(postgres, line):
    """An Optuna study over a line that can be cut; its trials are not queued yet."""
    url = postgres.new_schema_url()
    StudyStore.create(url).close()
    study = OptunaStudy.open(
        postgres.by_way_of(line.port, url), name="rates", factor="learning_rate", cells=CELLS
    )
    yield study
    study.close()


def trials(mirror):
    return [(t.user_attrs["cell"], t.state.name) for t in mirror._study.get_trials()]


class TestLineThatIsCut:
    """The server has the commit, and its answer is lost."""

    def cut_at_the_next_write(self, mirror, line, monkeypatch, method):
        """Reads of Optuna's end with a COMMIT too."""
        original = getattr(mirror._storage, method)

        def cut(*arguments, **options):
            monkeypatch.undo()
            line.cut_at = 1
            return original(*arguments, **options)

        monkeypatch.setattr(mirror._storage, method, cut)

    def test_a_trial_is_queued_once(self, mirror, line, monkeypatch):
        self.cut_at_the_next_write(mirror, line, monkeypatch, "_create_new_trial")
        with pytest.raises(StoreUnavailable):
            mirror.enqueue(fingerprint="f0")

        mirror.enqueue(fingerprint="f0")

        assert trials(mirror) == [("baseline/0", "WAITING"), ("double/0", "WAITING")]

    def test_a_trial_is_queued_again_once(self, mirror, line, monkeypatch):
        mirror.enqueue(fingerprint="f0")
        mirror.end("double/0", FAILED)
        self.cut_at_the_next_write(mirror, line, monkeypatch, "_create_new_trial")
        with pytest.raises(StoreUnavailable):
            mirror.queue_again("double/0")

        mirror.queue_again("double/0")

        assert trials(mirror)[1:] == [("double/0", "FAIL"), ("double/0", "WAITING")]
        assert mirror.numbers() == {"baseline/0": 0, "double/0": 2}

    def test_an_ending_is_told_once(self, mirror, line, monkeypatch):
        mirror.enqueue(fingerprint="f0")
        mirror.start("double/0")
        self.cut_at_the_next_write(mirror, line, monkeypatch, "set_trial_state_values")
        with pytest.raises(StoreUnavailable):
            mirror.end("double/0", FAILED)

        mirror.end("double/0", FAILED)

        assert trials(mirror)[1:] == [("double/0", "FAIL")]
        assert mirror.has_ended("double/0")


def test_a_connection_that_ended_while_it_was_idle_costs_nothing(mirror, postgres):
    """It is noticed before it is used."""
    mirror.enqueue(fingerprint="f0")
    postgres.end_sessions()

    mirror.start("baseline/0")

    assert trials(mirror) == [("baseline/0", "RUNNING"), ("double/0", "WAITING")]
