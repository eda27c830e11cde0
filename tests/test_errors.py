"""One clear message: what, where, got and expected, what to do next."""

import pickle

import pytest

from sweeper.errors import (
    DataError,
    Fault,
    NotFound,
    StoreError,
    StoreForbidden,
    StoreUnreachable,
    StudyFileError,
    SweeperError,
    UserError,
    as_plain,
    from_plain,
    nearest,
)

FAULT = Fault(
    what="the learning rate is not above zero",
    where="study.yaml:12: training.learning_rate",
    got="0",
    expected="a number above 0 and at most 1",
    hint="Write the baseline's peak rate, for instance 2e-4.",
)


def test_a_message_has_its_four_parts_in_order():
    assert str(FAULT) == (
        "study.yaml:12: training.learning_rate: the learning rate is not above zero "
        "(got 0; expected a number above 0 and at most 1). "
        "Write the baseline's peak rate, for instance 2e-4."
    )


@pytest.mark.parametrize("hint", ["Write one", "Write one."])
def test_a_hint_ends_in_one_full_stop(hint):
    assert str(Fault(what="nothing to do", hint=hint)) == "nothing to do. Write one."


def test_a_message_leaves_out_the_parts_it_lacks():
    assert str(Fault(what="nothing to do")) == "nothing to do."


def test_all_faults_of_a_file_come_in_one_message():
    error = StudyFileError(FAULT, "the file is empty")

    assert str(error).splitlines() == [str(FAULT), "the file is empty."]


@pytest.mark.parametrize("kind", [StudyFileError, DataError, NotFound])
def test_what_a_user_can_mend_is_a_user_error(kind):
    assert issubclass(kind, UserError)


@pytest.mark.parametrize(
    "kind", [DataError, StoreError, StoreForbidden, StoreUnreachable, UserError, SweeperError]
)
def test_an_error_crosses_a_process_boundary_unchanged(kind):
    error = kind(FAULT, Fault(what="another"))

    again = from_plain(as_plain(error))

    assert type(again) is kind
    assert again.faults == error.faults


def test_an_error_survives_pickling_between_threads_and_pools():
    again = pickle.loads(pickle.dumps(DataError(FAULT)))

    assert again.faults == (FAULT,)


def test_the_nearest_valid_name_is_offered():
    assert nearest("learning_rte", ["learning_rate", "schedule"]) == "learning_rate"


def test_a_name_like_no_other_gets_no_offer():
    assert nearest("zzz", ["learning_rate", "schedule"]) is None
