"""Tables as the page has them."""

from sweeper.report.columns import Column, Table
from sweeper.report.sheets import Cell, Sheet
from sweeper.report.shown import shown_sheet, shown_table


def column(name, kind, unit=None):
    return Column(name=name, kind=kind, unit=unit, meaning="")


def texts(shown):
    return [[cell.text for cell in row] for row in shown.rows]


def test_unknown_values_are_dashes_and_memory_is_in_mebibytes():
    columns = [column("trial", "text"), column("peak_memory_bytes", "integer", "bytes")]
    columns += [column("loss", "number", "nats per target token"), column("ran", "flag")]
    rows = [
        {"trial": "half/0", "peak_memory_bytes": 3 * 2**19, "loss": 1.60001, "ran": True},
        {"trial": "half/1", "peak_memory_bytes": None, "loss": None, "ran": False},
    ]

    shown = shown_table(Table(rows=rows, columns=columns), "Trials")

    assert texts(shown) == [["half/0", "1.5", "1.6000", "yes"], ["half/1", "-", "-", "no"]]
    assert [(c.title, c.unit, c.is_numeric) for c in shown.columns] == [
        ("trial", "", False),
        ("peak memory bytes", "MiB", True),
        ("loss", "nats per target token", True),
        ("ran", "", False),
    ]


def test_rows_beyond_the_most_are_counted():
    table = Table(rows=[{"n": n} for n in range(5)], columns=[column("n", "integer")])

    shown = shown_table(table, "Numbers", most=2)

    assert (texts(shown), shown.left_out) == ([["0"], ["1"]], 3)


def test_a_sheet_keeps_its_marks_and_loses_the_note_that_the_page_has_elsewhere():
    row = [Cell(text="half"), Cell(text="", mark="completed only, 0 of 3")]
    sheet = Sheet(
        label="x", caption="Arms", headers=["arm", "loss"], numeric=[False, True], rows=[row],
        notes=["Answer: yes.", "Seeds vary."],
    )  # fmt: skip

    shown = shown_sheet(sheet, without="Answer: yes.")

    assert shown.rows == [[Cell(text="half"), Cell(text="-", mark="completed only, 0 of 3")]]
    assert shown.notes == ["Seeds vary."]
