"""The report's page, of studies of every kind, as an HTML parser sees it."""

import dataclasses
import datetime as dt
import functools
import itertools
import re
from html.parser import HTMLParser

import pytest
from matplotlib.image import imread

import sweeper
from sweeper.report.arm_sheet import arm_sheet
from sweeper.report.arm_tables import difference_table
from sweeper.report.document import write_report
from sweeper.report.figures.drawing import svg_text
from sweeper.report.figures.endpoint_losses import endpoint_losses
from sweeper.report.page import Drawn, render
from sweeper.report.recorded import recorded_settings
from sweeper.report.sheets import written
from sweeper.report.tables import trial_table

pytestmark = pytest.mark.costly

KINDS = (
    *("answered", "ruined", "young", "cut_short", "extended", "hostile"),
    *("batches", "reopened"),
)
FIGURES = (
    *("endpoint-losses", "seed-differences", "loss-by-tokens", "loss-by-seconds"),
    *("exposure", "gradient-norms", "memory", "retention-by-loss"),
)
VOID = frozenset({"meta", "br", "img", "input", "link", "hr"})


class Page(HTMLParser):
    """What a page holds: its elements with their attributes, and the text of each table's cells."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.source, self.elements, self.words, self.tables = text, [], [], {}
        self.open, self.unclosed, self._rows, self._caption = [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in {"td", "th"}:
            self._rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.unclosed.append(tag)
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.words.append(data)
        if "caption" in self.open:
            self._caption += data
        elif self.open and {"td", "th"} & set(self.open):
            self._rows[-1][-1] = " ".join((self._rows[-1][-1] + data).split())

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def named(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]

    def table(self, beginning):
        (found,) = [rows for caption, rows in self.tables.items() if caption.startswith(beginning)]
        return found


AT = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@functools.cache
def page_at(file):
    return Page(file.read_text(encoding="utf-8"))


@pytest.fixture
def page(kind, written_pages):
    return page_at(written_pages[kind][1].page)


def test_it_needs_nothing_but_itself(page):
    attributes = [attribute for _, found in page.elements for attribute in found.items()]
    fetched = [
        value
        for name, value in attributes
        if name in {"src", "href", "srcset", "action", "data", "poster", "xlink:href"}
    ]

    assert [value for value in fetched if not value.startswith("#")] == []
    assert page.named("script", "link", "img", "iframe", "object", "embed", "form") == []
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page.source)
    assert "@import" not in page.source
    (policy,) = [a["content"] for a in page.named("meta") if "http-equiv" in a]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_every_link_and_every_reference_of_an_element_leads_to_one(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    links = [a["href"][1:] for a in page.named("a", "use")]
    labels = [
        word
        for _, attributes in page.elements
        for name in ("aria-labelledby", "aria-describedby")
        for word in attributes.get(name, "").split()
    ]

    assert len(ids) == len(set(ids))
    assert set(links) | set(labels) | set(re.findall(r"url\(#([\w-]+)\)", page.source)) <= set(ids)


def test_elements_are_closed_in_the_order_they_were_opened(page):
    assert (page.unclosed, page.open) == ([], [])


def test_headings_descend_one_level_at_a_time(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert [b for a, b in itertools.pairwise(levels) if b > a + 1] == []


def test_every_figure_is_an_image_with_a_name_a_conclusion_and_its_numbers(page):
    drawings = [a for a in page.named("svg") if a.get("class") == "drawing"]
    names = [a["aria-labelledby"].removesuffix("-title") for a in drawings]

    assert len(names) == len(page.named("figure")) >= 4
    assert set(names) <= set(FIGURES)
    assert {a["role"] for a in drawings} == {"img"}
    assert [a["aria-describedby"] for a in drawings] == [f"{name}-conclusion" for name in names]
    assert sum(caption.endswith("what is drawn") for caption in page.tables) == len(names)
    assert len(page.named("summary")) >= len(names)


def test_every_table_has_a_caption_and_headings_with_a_scope(page):
    assert len(page.named("caption")) == len(page.named("table"))
    assert {a.get("scope") for a in page.named("th")} == {"col", "row"}


def test_what_scrolls_can_be_reached_by_the_keyboard_and_has_a_name(page):
    scrolling = [a for a in page.named("div") if "scroll" in a.get("class", "").split()]

    assert scrolling
    assert {(a["role"], a["tabindex"]) for a in scrolling} == {("region", "0")}
    assert all(a["aria-label"] for a in scrolling)


def test_it_has_landmarks_a_language_and_a_way_past_the_top(page):
    tags = [tag for tag, _ in page.elements]

    assert [tags.count(tag) for tag in ("main", "header", "footer", "nav")] == [1, 1, 1, 1]
    assert page.named("html") == [{"lang": "en"}]
    assert page.named("a")[0] == {"class": "skip", "href": "#main"}


def test_no_number_is_missing_in_words(page):
    said_by_a_trial = page.text.replace("<b>nan</b>", "")
    assert re.findall(r"\b(?:NaN|None|inf|Undefined|nan)\b", said_by_a_trial) == []


def test_it_is_small(kind, written_pages):
    assert written_pages[kind][1].page.stat().st_size < 600_000


def test_no_host_and_no_path_is_on_it(kind, page, written_pages):
    found, _ = written_pages[kind]
    with found.open() as store:
        hosts = {row["host"] for row in store.attempts()}

    assert str(found.folder.path.parent) not in page.source
    assert [host for host in hosts if re.search(rf"\b{re.escape(host)}\b", page.text)] == []
    assert re.findall(r"(?<![\w<])/(?:home|root|srv|mnt|tmp|work)\b", page.text) == []


def test_its_numbers_are_those_of_the_tables(kind, page, written_pages):
    found, _ = written_pages[kind]
    expected = trial_table(found.folder.path)
    columns = {column.name: column for column in expected.columns}
    header, *rows = page.table("Every planned trial")
    shown = [dict(zip(_plain_names(header), row, strict=True)) for row in rows]

    names = ("trial", "outcome", "initial_loss", "validation_loss", "retention_loss", "updates")
    assert [{name: row[name] for name in names} for row in shown] == [
        {name: written(row, columns[name], unknown="-") for name in names} for row in expected.rows
    ]


def _plain_names(header):
    known = ("trial", "outcome", "initial loss", "validation loss", "retention loss", "updates")
    return [next((n.replace(" ", "_") for n in known if h.startswith(n)), h) for h in header]


def test_its_sentences_are_those_of_the_comparison(kind, page, written_pages):
    if kind == "hostile":
        pytest.skip("its details are left out of the sentences")
    found = sweeper.compare(written_pages[kind][0].folder.path)

    sentences = [found.answer.sentence, found.choice.sentence]
    sentences += [arm.verdict.sentence for arm in found.arms]
    assert [each for each in sentences if " ".join(each.split()) not in page.text] == []


@pytest.fixture(scope="module")
def again(written_pages, tmp_path_factory):
    """A day later, the report on a record that is as it was; in another folder."""
    found, _ = written_pages["answered"]
    place = tmp_path_factory.mktemp("again")
    return write_report(found.folder.path, out=place, at=AT + dt.timedelta(days=1))


def test_the_same_record_gives_the_same_bytes_at_another_time_but_for_that_time(
    written_pages, again
):
    _, first = written_pages["answered"]

    page = again.page.read_bytes().replace(b"2026-03-03", b"2026-03-02")
    assert page == first.page.read_bytes()
    for file in first.figures:
        for ending in (".svg", ".csv"):
            mine = (again.page.parent / "figures" / file.name).with_suffix(ending)
            assert mine.read_bytes() == file.with_suffix(ending).read_bytes()


def test_the_same_record_gives_the_same_pictures_to_a_shade(written_pages, again):
    """The layout settles on places that may differ in the last bit, so an edge in one shade."""
    _, first = written_pages["answered"]

    for file in first.figures:
        drawn_again = again.page.parent / "figures" / file.name
        mine, theirs = (imread(place.with_suffix(".png")) for place in (drawn_again, file))
        assert mine.shape == theirs.shape
        assert abs(mine - theirs).max() <= 1 / 255


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ("answered", ["Yes: half (0.0001) is better than baseline", "half is chosen"]),
        ("answered", ["Learning rate sensitivity: over the 3 rates from 0.0001 to 0.0004 an arm"]),
        ("ruined", ["baseline was stopped", "half was stopped in 3 of 3 seeds"]),
        ("young", ["In progress. Trials may still go on", "One seed cannot show"]),
        ("cut_short", ["Partial. 4 of 9 trials are missing", "the machine's doing"]),
        ("extended", ["Not comparable. A gate was broken", "x4, seed 1: it started from other"]),
        ("extended", ["x8 is an extension, added in round 2", "x4 (round 1) and x8 (round 2)"]),
        ("batches", ["half made 80 where baseline made 40", "records per update, logarithmic"]),
        ("batches", ["baseline 160, half 320 and double 80 in all their trials together"]),
        ("reopened", ["Test split evaluated 2 times.", "Reasons given: a reviewer asked."]),
        ("reopened", ["What follows is of the first.", "They are secondary: nothing was selected"]),
        ("reopened", ["It is frozen.", "metrics were attached from bleu.csv"]),
    ],
)
def test_what_has_to_be_known_is_said(study, words, written_pages):
    page = page_at(written_pages[study][1].page)

    assert [each for each in words if each not in page.text] == []


@pytest.mark.parametrize("study", ["answered", "extended", "batches", "reopened"])
def test_its_differences_are_those_of_the_table(study, written_pages):
    found, page = written_pages[study]
    expected = difference_table(sweeper.compare(found.folder.path))
    columns = {column.name: column for column in expected.columns}
    header, *rows = page_at(page.page).table("Arm minus baseline")
    names = ("arm", "pairs", "mean", "low_95", "high_95")
    places = [_place(header, name) for name in names]

    assert [[row[place] for place in places] for row in sorted(rows)] == [
        [written(row, columns[name], unknown="-") for name in names]
        for row in sorted(expected.rows, key=lambda row: row["arm"])
    ]


def _place(header, name):
    """Where the column is; a heading goes on with its unit."""
    return next(n for n, cell in enumerate(header) if cell.startswith(name.replace("_", " ")))


@pytest.mark.parametrize("study", ["answered", "cut_short", "batches"])
def test_its_arms_are_those_of_the_sheet(study, written_pages):
    found, page = written_pages[study]
    settings = recorded_settings(found.folder)
    sheet = arm_sheet(sweeper.compare(found.folder.path), settings, budget_target_tokens=4000)
    header, *rows = page_at(page.page).table(sheet.caption)

    assert header == list(sheet.headers)
    assert [squeezed(row) for row in rows] == [
        squeezed(f"{cell.text or '-'}{cell.mark or ''}" for cell in cells) for cells in sheet.rows
    ]


def squeezed(cells):
    """Cells without what parts their words: the page has line ends where a sheet has blanks."""
    return [re.sub(r"[\s,]", "", cell) for cell in cells]


def page_of(dossier):
    """The page with the one figure that every study has."""
    drawing = endpoint_losses(dossier.evidence, dossier.comparison)
    drawn = dict.fromkeys(name.replace("-", "_") for name in FIGURES)
    drawn["endpoint_losses"] = Drawn(drawing=drawing, svg=svg_text(drawing))
    return Page(render(dossier, drawn, at=AT))


def test_a_broken_chain_is_told_on_top_and_every_break_below(dossiers):
    links = list(dossiers["reopened"].links)
    links[4] = dataclasses.replace(links[4], entry=links[4].entry.replace("trial", "trail"))

    words = page_of(dataclasses.replace(dossiers["reopened"], links=links)).text

    told = words.index("Tampered with. The chain of the record is broken")
    assert words.index("Yes: half") < told < words.index("Test split evaluated 2 times.")
    assert told < words.index("Choice.")
    assert "entry 5 (" in words[words.index("The chain is broken.") :]


def test_what_was_frozen_is_on_the_page_and_not_what_the_record_has_come_to(dossiers):
    """The trials of `extended` are on record now; what was frozen was said of others."""
    frozen, record = dossiers["reopened"].frozen, dossiers["extended"]

    page = page_of(dataclasses.replace(record, frozen=frozen))

    now = record.comparison
    assert f"Choice. {frozen.sentence} It is frozen." in page.text
    assert f'<p class="answer">{frozen.answer}</p>' in page.source
    assert f"Choice. {now.choice.sentence}" not in page.text
    told = page.text.index("Not as it was frozen. The record now gives")
    assert told < page.text.index("Not comparable.") < page.text.index("Choice.")
    assert f"The record now gives another answer: {now.answer.sentence}" in page.text


def test_where_gates_leave_no_difference_that_is_said(dossiers):
    found = dossiers["extended"].comparison
    broken = tuple(arm for arm in found.arms if arm.breaks)
    comparison = dataclasses.replace(found, arms=broken)

    words = page_of(dataclasses.replace(dossiers["extended"], comparison=comparison)).text

    assert "No arm has a difference from the baseline: where a gate was broken none" in words


def test_words_of_others_are_shown_as_words(written_pages, page_studies):
    page = Page(written_pages["hostile"][1].page.read_text(encoding="utf-8"))

    assert (
        "Is <script>alert(1)</script> & {{ 7 * 7 }} \"too\" 'high' in [path left out]" in page.text
    )
    assert (
        "</style><img src=http://evil.example/x onerror=alert(2)> at [path left out]." in page.text
    )
    assert "</details><iframe src='//evil.example'></iframe> read from [path left out]" in page.text
    assert "my secret record" not in page.source
    assert page.text.count("<b>nan</b> on eves-laptop in [path left out]") >= 3


def test_paths_and_words_are_there_when_asked_for(written_pages, tmp_path):
    found, _ = written_pages["hostile"]

    page = Page(write_report(found.folder.path, out=tmp_path, with_paths=True).page.read_text())

    assert "/home/eve/secret" in page.text
    assert "KeyError: 'my secret record'" in page.text
    assert "Host names" not in page.text
    assert page.named("script", "img", "iframe") == []


def test_a_figure_that_is_drawn_no_more_leaves_no_file(written_pages, tmp_path):
    (tmp_path / "figures").mkdir()
    stale = tmp_path / "figures" / "seed-differences.svg"
    stale.write_text("of an earlier report")

    write_report(written_pages["ruined"][0].folder.path, out=tmp_path)

    assert not stale.exists()
