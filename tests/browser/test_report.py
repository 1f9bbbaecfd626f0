"""A report in a real browser: it opens without a sound, asks nothing of anybody, and can be read."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from PIL import Image, ImageStat
from selenium.webdriver.common.keys import Keys

from pytest_ngram.record import Outcome, Record, from_builtins, run_from_builtins
from pytest_ngram.report.html import page
from pytest_ngram.report.page import Shown
from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import from_records

if TYPE_CHECKING:
    from conftest import Browser

WIDTHS, SCHEMES = (380, 1280), ("light", "dark")
READABLE = 4.5  # the contrast that WCAG 2.2 AA wants of text
EVIL = "<img src=x onerror='window.evil=1'><script>window.evil=1</script>"
CONTRAST = """
const parse = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
const lum = c => parse(c).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const paper = lum(getComputedStyle(document.body).backgroundColor);
const seen = new Map();
for (const e of document.querySelectorAll("body *:not(script)")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || e.closest("[aria-pressed=true]")) continue;
  const style = getComputedStyle(e);
  const ink = lum(e instanceof SVGElement ? style.fill : style.color);
  const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  seen.set(e.tagName + "." + (e.getAttribute("class") ?? ""), ratio);
}
return Object.fromEntries(seen);
"""
OUTSIDE = """
const found = [];
for (const svg of document.querySelectorAll(".plot svg")) {
  const all = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll("text")) {
    const own = text.getBoundingClientRect();
    const sides = [own.left - all.left, all.right - own.right, own.top - all.top, all.bottom - own.bottom];
    if (Math.min(...sides) < -2)
      found.push(svg.closest("figure").id + ": " + text.textContent);
  }
}
return found;
"""


@pytest.fixture
def report(measured: Path) -> Path:
    return measured / "report.html"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_without_errors_and_without_the_network(
    browser: Browser, report: Path, width: int, scheme: str
) -> None:
    """The console says nothing, and nothing but the file is asked for."""
    browser.open(report, width=width, scheme=scheme)
    assert browser.errors() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [report.as_uri()]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_no_wider_than_the_window(browser: Browser, report: Path, width: int) -> None:
    """On a telephone too the page does not scroll sideways, with all unfolded; tables may."""
    browser.open(report, width=width)
    browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_the_first_screen_has_answer_table_and_floor(browser: Browser, report: Path) -> None:
    """Nobody has to scroll for the answer, a row for each config, and the noise floor."""
    browser.open(report)
    for what in ("h2", ".model table", ".model tbody tr:last-child", ".floor"):
        bottom = browser.run(
            "return document.querySelector(arguments[0]).getBoundingClientRect().bottom", what
        )
        assert 0 < bottom < 900, what


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_can_be_read(browser: Browser, measured: Path, tmp_path: Path, scheme: str) -> None:
    """All text, that of plots, verdicts and failures too, stands out from the page in light and in dark."""
    browser.open(evil_page(measured, tmp_path), scheme=scheme)
    browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
    seen = browser.run(CONTRAST)
    assert {"text.", "FIGCAPTION.", "PRE.", "A."} <= seen.keys()
    assert sum("verdict" in what for what in seen) >= 2
    assert {what: ratio for what, ratio in seen.items() if ratio < READABLE} == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_no_label_leaves_its_plot(browser: Browser, report: Path, width: int) -> None:
    """The reader's fonts are not those that the plot was laid out with, and its labels fit all the same."""
    browser.open(report, width=width)
    assert browser.run("return document.querySelectorAll('.plot svg').length") >= 6
    assert browser.run(OUTSIDE) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_light_or_dark_as_the_reader_has_it(
    browser: Browser, report: Path, screenshots: Path, width: int, scheme: str
) -> None:
    """The whole page in a picture, to be looked at, which is light or dark as the system asks for."""
    browser.open(report, width=width, scheme=scheme)
    height = min(8000, browser.run("return document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = browser.driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    picture = base64.b64decode(taken["data"])
    (screenshots / f"report-{scheme}-{width}.png").write_bytes(picture)
    light = ImageStat.Stat(Image.open(io.BytesIO(picture)).convert("L")).mean[0]
    assert light > 200 if scheme == "light" else light < 80


def test_the_reader_may_choose_light_or_dark_by_keyboard(browser: Browser, report: Path) -> None:
    """The buttons work with the keyboard, overrule the system, and are remembered."""
    browser.open(report, scheme="light")
    light = paper(browser)
    button = browser.driver.find_element("css selector", "[data-set-theme=dark]")
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true"
    dark = paper(browser)
    assert dark != light
    browser.driver.refresh()
    assert paper(browser) == dark
    browser.driver.find_element("css selector", "[data-set-theme=auto]").send_keys(Keys.SPACE)
    assert paper(browser) == light


def paper(browser: Browser) -> str:
    return str(browser.run("return getComputedStyle(document.body).backgroundColor"))


def test_a_number_leads_to_its_cells(browser: Browser, report: Path) -> None:
    """Following a number of the first table, the cells of its config are in sight."""
    browser.open(report)
    link = browser.driver.find_element("css selector", ".model tbody tr:last-child td.n a")
    target = str(link.get_attribute("href")).split("#")[1]
    link.click()
    box = browser.run("return document.getElementById(arguments[0]).getBoundingClientRect().toJSON()", target)
    assert 0 <= box["top"] < 900


def test_the_keyboard_reaches_the_answer_first(browser: Browser, report: Path) -> None:
    """The first stop of Tab is a way past the head, and it shows."""
    browser.open(report)
    browser.driver.find_element("css selector", "body").send_keys(Keys.TAB)
    focused = browser.driver.switch_to.active_element
    assert focused.get_attribute("class") == "skip"
    assert focused.rect["x"] >= 0


def test_what_others_wrote_does_not_run(browser: Browser, measured: Path, tmp_path: Path) -> None:
    """Names, reasons and logs of a saved run that hold scripts are shown, and do nothing."""
    path = evil_page(measured, tmp_path)
    browser.open(path)
    assert browser.run("return window.evil") is None
    assert browser.errors() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [path.as_uri()]
    assert EVIL in browser.run("return document.body.textContent")
    assert browser.run("return document.querySelectorAll('img').length") == 0


def test_a_link_into_what_is_folded_unfolds_it(browser: Browser, measured: Path, tmp_path: Path) -> None:
    """A cell's mark leads to its reason, though that is folded away."""
    path = evil_page(measured, tmp_path)
    browser.open(path)
    browser.run("location.hash = document.querySelector('.notice').id")
    assert browser.run("return document.querySelector('.notice').checkVisibility()")
    browser.run(
        "const e = document.querySelector('figure details table'); e.id = 'folded'; location.hash = 'folded'"
    )
    browser.driver.implicitly_wait(1)
    assert browser.run("return document.getElementById('folded').closest('details').open")


def evil_page(measured: Path, folder: Path) -> Path:
    path = folder / "evil.html"
    path.write_text(page(evil(json.loads((measured / "run.json").read_bytes()))), encoding="utf-8")
    return path


def evil(data: dict[str, Any]) -> Shown:
    run = run_from_builtins(data["ngram"])
    records = [bad(from_builtins(each["extra_info"]["ngram"])) for each in data["benchmarks"]]
    order = sorted({record.cell.config for record in records})
    return Shown(records, judge(from_records(records), config_order=order), run.run, order)


def bad(record: Record) -> Record:
    """The cell with scripts for names, on a quiet machine; those of `mtp1` in the first block crashed."""
    cell = replace(record.cell, model=EVIL, prompt=EVIL + record.cell.prompt)
    record = replace(record, host=None, disturbance=None)
    if cell.block > 1 or cell.config != "mtp1":
        return replace(record, cell=cell)
    return replace(record, cell=cell, rounds=(), outcome=Outcome("crash", EVIL, (EVIL,)))
