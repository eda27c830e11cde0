"""Terms and columns."""

from sweeper.report.columns import Column, Table
from sweeper.report.parts.glossary import TERMS, column_meanings


def column(name, meaning):
    return Column(name=name, kind="number", unit=None, meaning=meaning)


def test_columns_are_explained_once_in_alphabetical_order():
    first = Table(rows=[], columns=[column("loss", "of a window"), column("arm", "a value")])
    second = Table(rows=[], columns=[column("loss", "of a split")])

    assert column_meanings([first, second]) == [("arm", "", "a value"), ("loss", "", "of a window")]


def test_every_term_has_a_meaning_that_does_not_begin_with_itself():
    assert all(meaning and not meaning.startswith(term) for term, meaning in TERMS.items())
