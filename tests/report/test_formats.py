"""CSV, Markdown and LaTeX: nothing that a cell holds is obeyed, and nothing unknown has a name."""

import csv
import io
import re

import pytest

from sweeper.report.columns import NATS, Column, Table
from sweeper.report.formats import csv_text, latex, latex_text, markdown_text
from sweeper.report.sheets import Cell, Sheet, sheet_of, value_text

NOTE = Column(name="note", kind="text", unit=None, meaning="whatever somebody wrote")
LOSS = Column(name="loss", kind="number", unit=NATS, meaning="a loss")
SE = Column(name="se", kind="number", unit=NATS, meaning="its standard error")
MEAN = Column(name="mean", kind="number", unit=NATS, meaning="a difference", error="se")

SPECIAL = r"a_b 5% c&d #1 $x$ {y} ~z ^w \v `u` <t> |s"


def table(*notes, loss=None):
    return Table(rows=[{"note": note, "loss": loss} for note in notes], columns=[NOTE, LOSS])


def test_csv_is_empty_where_a_value_is_unknown():
    assert csv_text(table(None, "x")) == "note,loss\n,\nx,\n"


def test_csv_has_every_digit():
    assert csv_text(table("x", loss=0.1 + 0.2)) == "note,loss\nx,0.30000000000000004\n"


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ('say "a"', '"say ""a"""'),
        ("a,b", '"a,b"'),
        ("two\nlines", '"two\nlines"'),
        ("return\rhere", '"return\rhere"'),
        ("plain; text", "plain; text"),
    ],
)
def test_csv_quotes_what_would_be_read_otherwise(note, written):
    text = csv_text(table(note))

    assert text == f"note,loss\n{written},\n"
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == [note, ""]


@pytest.mark.parametrize(
    "note", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "=cmd|' /C calc'!A0", '=HYPERLINK("x")']
)
def test_text_that_a_spreadsheet_would_take_for_a_formula_is_defused_in_csv(note):
    (_, row) = csv.reader(io.StringIO(csv_text(table(note)), newline=""))

    assert row[0] == f"'{note}"


def test_a_negative_number_is_no_formula():
    assert csv_text(table("x", loss=-0.5)) == "note,loss\nx,-0.5\n"


def test_markdown_has_a_caption_headers_rules_rows_and_notes():
    text = markdown_text(sheet_of(table("x", loss=1.25), label="t", caption="Losses."))

    assert text == (
        "**Losses.**\n\n"
        "| note | loss |\n| :--- | ---: |\n| x | 1.2500 |\n\n"
        "Units. nats per target token: loss.\n"
    )


def test_markdown_escapes_what_would_end_a_cell_or_be_obeyed():
    text = markdown_text(sheet_of(table("a|b <i> *c* `d` [e](f) \\ g\nh"), label="t", caption="C"))

    row = text.splitlines()[4]
    assert row == r"| a\|b &lt;i&gt; \*c\* \`d\` \[e\](f) \\ g h |  |"


@pytest.mark.parametrize(
    ("text", "written"), [("a_b", "a_b"), ("_a_", r"\_a\_"), ("a _b_ c", r"a \_b\_ c")]
)
def test_markdown_leaves_underscores_within_words(text, written):
    assert markdown_text(sheet_of(table(text), label="t", caption="C")).splitlines()[4] == (
        f"| {written} |  |"
    )


def test_latex_escapes_every_character_that_tex_obeys():
    assert latex(SPECIAL) == (
        r"a\_b 5\% c\&d \#1 \$x\$ \{y\} \textasciitilde{}z \textasciicircum{}w "
        r"\textbackslash{}v \textasciigrave{}u\textasciigrave{} \textless{}t\textgreater{} "
        r"\textbar{}s"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("-0.5", "$-$0.5"),
        ("-0.5 (-1 to -.25)", "$-$0.5 ($-$1 to $-$.25)"),
        ("1e-05", "1e-05"),
        ("2026-03-01", "2026-03-01"),
        ("arm - baseline", "arm - baseline"),
        ("\N{PILE OF POO}", "[U+1F4A9]"),
    ],
)
def test_latex_sets_signs_as_signs_and_other_letters_by_their_number(text, written):
    assert latex(text) == written


def balance(text):
    """Depth of braces after each character that is not escaped."""
    plain = re.sub(r"\\[\\{}_%&#$]", "", text)
    return plain.count("{") - plain.count("}")


@pytest.fixture
def written():
    rows = table(SPECIAL, "}{", "\\", "\\\\", "\\end{tabular}", "a & b \\\\ c", loss=-1.5)
    return latex_text(sheet_of(rows, label="sweeper-t", caption=SPECIAL))


def test_latex_is_one_table_of_booktabs_with_every_group_closed(written):
    environments = re.findall(
        r"\\(begin|end)\{(\w+)\}", re.sub(r"\\textbackslash\{\}", "", written)
    )

    assert environments == [
        ("begin", "table"),
        ("begin", "tabular"),
        ("end", "tabular"),
        ("end", "table"),
    ]
    assert balance(written) == 0
    assert re.findall(r"\\(\w+rule)", written) == ["toprule", "midrule", "bottomrule"]
    assert written.isascii()


def test_every_row_of_latex_has_a_cell_for_each_column_and_an_end(written):
    body = written.partition("\\toprule\n")[2].partition("\\bottomrule")[0]
    rows = [line for line in body.splitlines() if line != "\\midrule"]

    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [1] * 7
    assert [row.endswith(" \\\\") for row in rows] == [True] * 7
    assert "\\begin{tabular}{lr}" in written


def test_latex_raises_a_mark_and_markdown_puts_it_in_brackets():
    sheet = Sheet(
        label="t",
        caption="C",
        headers=["mean"],
        numeric=[True],
        rows=[[Cell(text="1.7000", mark="completed only, 1 of 3")]],
    )

    assert "1.7000\\textsuperscript{completed only, 1 of 3} \\\\" in latex_text(sheet)
    assert "| 1.7000 (completed only, 1 of 3) |" in markdown_text(sheet)


def test_the_rest_of_the_caption_is_in_latex_s_caption_too():
    sheet = Sheet(label="t", caption="Short.", headers=["a"], numeric=[True], rows=[], notes=["B."])

    assert "\\caption[{Short.}]{Short. B.}" in latex_text(sheet)


@pytest.mark.parametrize(
    ("mean", "se", "shown"),
    [(-0.0106, 0.00128841, "-0.0106"), (0.0106, 0.004, "0.011"), (0.5, None, "0.5000")],
)
def test_a_difference_is_shown_to_the_precision_of_its_error(mean, se, shown):
    rows = Table(rows=[{"mean": mean, "se": se}], columns=[MEAN])

    assert sheet_of(rows, label="t", caption="C").rows[0][0].text == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1.5, NATS, "1.5000"),
        (750000.0, "target tokens", "750000"),
        (0.0001578, None, "0.0001578"),
        (12.34, "s", "12.3"),
        (True, None, "yes"),
        (None, NATS, ""),
    ],
)
def test_a_value_has_the_digits_that_its_unit_asks_for(value, unit, shown):
    assert value_text(value, unit) == shown
