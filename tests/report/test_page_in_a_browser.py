"""The report's page in chromium: what a reader sees, and what axe has to say of it.

axe-core is not part of this repository (654 kB, MPL-2.0). `npm pack axe-core` fetches it; the
environment variable SWEEPER_AXE then names its `package/axe.min.js`.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]  # starts a browser

KINDS = (
    *("answered", "ruined", "young", "cut_short", "extended", "hostile"),
    *("batches", "reopened"),
)
AXE = os.environ.get("SWEEPER_AXE")


def _load():
    script = Path(__file__).with_name("browser.py")
    spec = importlib.util.spec_from_file_location("report_browser", script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


chromium = _load()

OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true })"
PAPER = "getComputedStyle(document.body).backgroundColor"
WHITE, DARK = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
WIDTH = "document.documentElement.scrollWidth"
ASKED = "JSON.stringify(performance.getEntriesByType('resource').map(each => each.name))"
FINDINGS = """axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(
    found.violations.map(each => [each.id, each.impact, each.nodes[0].html])))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if chromium.PROGRAM is None:
        pytest.skip("chromium is not installed")
    started = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(params=KINDS)
def page(request, written_pages):
    return written_pages[request.param][1].page


def answers(browser, page, *commands):
    results = browser.visit(page, *commands)
    return [chromium.value_of(result) for result in results if "result" in result]


@pytest.mark.parametrize("pixels", [chromium.PHONE, chromium.DESK])
def test_nothing_is_wider_than_the_screen_and_nothing_is_fetched(browser, page, pixels):
    width, asked = answers(
        browser,
        page,
        chromium.width(pixels),
        chromium.OPEN,
        chromium.evaluate(OPEN_ALL),
        chromium.evaluate(WIDTH),
        chromium.evaluate(ASKED),
    )[-2:]

    assert width <= pixels
    assert json.loads(asked) == []


@pytest.mark.parametrize(("system", "choice"), [("light", "dark"), ("dark", "light")])
def test_a_reader_s_choice_of_colours_overrules_the_system_s(
    browser, written_pages, system, choice
):
    before, _, after = answers(
        browser,
        written_pages["answered"][1].page,
        chromium.scheme(system),
        chromium.OPEN,
        chromium.evaluate(PAPER),
        chromium.evaluate(f"document.getElementById('theme-{choice}').click()"),
        chromium.evaluate(PAPER),
    )

    assert (before, after) == ((WHITE, DARK) if system == "light" else (DARK, WHITE))


def test_it_prints_on_paper_in_few_pages(browser, written_pages):
    (printed,) = browser.visit(written_pages["answered"][1].page, chromium.OPEN, chromium.PRINT)

    paper = chromium.bytes_of(printed)
    assert paper.startswith(b"%PDF")
    assert 5 <= paper.count(b"/Type /Page\n") <= 20


@pytest.mark.skipif(AXE is None, reason="SWEEPER_AXE does not name axe.min.js")
@pytest.mark.parametrize(("pixels", "system"), [(chromium.PHONE, "dark"), (chromium.DESK, "light")])
def test_axe_finds_nothing(browser, page, pixels, system):
    found = answers(
        browser,
        page,
        chromium.width(pixels),
        chromium.scheme(system),
        chromium.OPEN,
        chromium.evaluate(OPEN_ALL),
        chromium.evaluate(Path(AXE or "").read_text(encoding="utf-8")),
        chromium.evaluate(FINDINGS),
    )[-1]

    assert json.loads(found) == []
