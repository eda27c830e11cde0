"""The chain: T12 of the numeric cases, and that whatever is changed in it shows, but its tail."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from sweeper.selection.chain import (
    GENESIS,
    EntryKind,
    canonical,
    head,
    link_after,
    next_digest,
    verify,
)


def digests(entries):
    return [*itertools.accumulate(map(canonical, entries), next_digest, initial=GENESIS)]


def test_the_digests_are_those_of_the_numeric_case(cases):
    given, expected = cases["T12"]["given"], cases["T12"]["expect"]

    assert digests(given["entries"]) == [given["genesis"], *expected["hashes"]]


def test_one_loss_edited_gives_the_other_head_of_the_numeric_case(cases):
    entries, expected = cases["T12"]["given"]["entries"], cases["T12"]["expect"]
    first, second, third = entries
    edited = [first, {**second, "val_loss": "1.5913"}, third]

    assert digests(edited)[-1] == expected["head_if_val_loss_edited_to_1_5913"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_refused(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"loss": number})


def test_an_entry_has_one_text_whatever_the_order_of_its_keys():
    assert canonical({"b": 0.1, "a": ["\u00e9", None]}) == '{"a":["\u00e9",null],"b":0.1}'


@pytest.fixture
def chain():
    """Three trials began."""
    first = link_after(None, EntryKind.TRIAL_STARTED, {"trial": "half/0"}, at="12:00")
    second = link_after(first, EntryKind.TRIAL_STARTED, {"trial": "half/1"}, at="12:01")
    third = link_after(second, EntryKind.TRIAL_STARTED, {"trial": "half/2"}, at="12:02")
    return first, second, third


def sentences(links):
    return [found.sentence for found in verify(links)]


def test_number_kind_and_time_are_part_of_the_entry(chain):
    assert chain[1].entry == '{"at":"12:01","seq":2,"trial":"half/1","type":"trial_started"}'
    assert chain[1].digest == next_digest(chain[0].digest, chain[1].entry)
    assert chain[1].facts == {"trial": "half/1"}


def test_a_whole_chain_has_no_break_and_its_last_digest_as_its_head(chain):
    assert sentences(chain) == []
    assert head(chain) == chain[2].digest
    assert head(()) == GENESIS


def test_a_changed_entry_breaks_it(chain):
    first, second, third = chain
    changed = dataclasses.replace(second, entry=second.entry.replace("half/1", "half/9"))

    assert sentences([first, changed, third]) == [
        (
            "entry 2 (trial_started) does not have the digest it was sealed with: it was changed, "
            "or an entry before it was"
        )
    ]


def test_a_changed_entry_that_was_sealed_anew_breaks_it_at_the_next(chain):
    first, _, third = chain
    anew = link_after(first, EntryKind.TRIAL_STARTED, {"trial": "half/9"}, at="12:01")

    (found,) = verify([first, anew, third])
    assert found.number == 3


def test_a_missing_entry_breaks_it(chain):
    first, _, third = chain

    assert sentences([first, third]) == ["entry 2 is missing: entry 3 follows"]


@pytest.mark.parametrize(
    "change", [{"kind": "note"}, {"at": "11:00"}], ids=["another kind", "another time"]
)
def test_an_entry_filed_as_something_else_breaks_it(chain, change):
    first, second, third = chain

    (found,) = verify([first, dataclasses.replace(second, **change), third])
    assert found.sentence.endswith("and says something else")


@pytest.mark.parametrize("entry", ["no JSON", "[]", '"text"', "{}"])
def test_an_entry_that_is_no_entry_breaks_it(entry):
    link = link_after(None, EntryKind.NOTE, {}, at="12:00")
    sealed = dataclasses.replace(link, entry=entry, digest=next_digest(GENESIS, entry))

    assert len(verify([sealed])) == 1


def test_a_chain_whose_tail_was_cut_off_is_whole(chain):
    """Which is why its head has to be kept elsewhere."""
    assert sentences(chain[:2]) == []
    assert head(chain[:2]) != head(chain)
