"""The report in a real browser: it runs, it loads nothing, and it can be read and worked."""

from __future__ import annotations

import base64
import json
import re
import shutil
from itertools import pairwise

import pandas as pd
import pytest

from tests.evidence import (
    GROUPS,
    LONG_NAMES,
    SCRIPT,
    make_class_evidence,
    make_evidence,
    make_number_evidence,
)

webdriver = pytest.importorskip("selenium.webdriver", reason="browser tests need selenium")

from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from fairboost.filings import annex_iv, ll144, model_risk  # noqa: E402
from fairboost.report import write_report  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium and chromedriver are missing; as root on Debian: make browser",
)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

CONTRAST = """
const bend = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const channel = (v) => bend(v / 255);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const found = parse(getComputedStyle(e).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const poor = [];
for (const element of document.body.querySelectorAll("*")) {
  const own = Array.from(element.childNodes).some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const ink = parse(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const [a, b] = [light(ink), light(ground(element))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) poor.push([element.tagName, element.textContent.slice(0, 40), ratio]);
}
return poor;
"""

LOST = """
const screen = document.documentElement.clientWidth;
const said = (e) => [e.tagName, e.textContent.trim().slice(0, 40)];
const within = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
const lost = [];
for (const e of document.body.querySelectorAll("*")) {
  if (!e.checkVisibility() || e.matches(".skip, script")) continue;
  const box = e.getBoundingClientRect();
  if (box.width === 0) continue;
  if (box.left < -0.5 || box.right > screen + 0.5) lost.push(["beyond the screen", ...said(e)]);
  if (e instanceof SVGElement) {
    const picture = e.ownerSVGElement;
    if (e.tagName === "text" && !within(box, picture.getBoundingClientRect()))
      lost.push(["beyond the picture", ...said(e)]);
    continue;
  }
  if (e.clientWidth && e.scrollWidth > e.clientWidth)
    lost.push(["wider than its box", ...said(e)]);
  const around = e.closest(".table");
  if (e.matches("th, td") && !within(box, around.getBoundingClientRect()))
    lost.push(["beyond its table", ...said(e)]);
}
return lost;
"""
"""What reaches beyond the screen, its box, its picture or its table from side to side."""

PICTURES = """
return [...document.querySelectorAll("figure svg")].map(e => e.getBoundingClientRect().width);
"""
"""How wide pictures are."""

UNFOLD = "for (const part of document.querySelectorAll('details')) part.open = true;"

COVERED = """
const covered = [];
for (const cell of document.querySelectorAll("tbody th, tbody td")) {
  if (!cell.textContent.trim()) continue;
  cell.scrollIntoView({block: "center"});
  for (let e = cell; e; e = e.parentElement) e.scrollLeft = 0;
  const words = document.createRange();
  words.selectNodeContents(cell);
  const box = words.getBoundingClientRect();
  const seen = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  if (seen !== cell) covered.push(cell.textContent);
}
return covered;
"""
"""Entries of tables that do not show where they stand."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_report(make_evidence(), tmp_path_factory.mktemp("report"))[0].as_uri()


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory):
    """Long names, six groups, and several constraints."""
    evidence = make_evidence(LONG_NAMES)
    return write_report(evidence, tmp_path_factory.mktemp("wide"))[0].as_uri()


@pytest.fixture(scope="module")
def number_page(tmp_path_factory):
    """A number is predicted: amounts, long names, deciles."""
    return write_report(make_number_evidence(), tmp_path_factory.mktemp("numbers"))[0].as_uri()


@pytest.fixture(scope="module")
def class_page(tmp_path_factory):
    """One of five classes is given: 25 constraints, six groups, long names."""
    return write_report(make_class_evidence(), tmp_path_factory.mktemp("classes"))[0].as_uri()


@pytest.fixture(scope="module")
def bias_page(tmp_path_factory):
    """A filing of people with long names of groups, and blanks."""
    sexes, races = LONG_NAMES.values()
    people = [(sex, race) for sex in sexes for race in races for _ in range(20)]
    groups = pd.DataFrame(people, columns=list(LONG_NAMES))
    filing = ll144(groups, selected=[k % 3 > 0 for k in range(len(people))])
    filing.write(folder := tmp_path_factory.mktemp("ll144"))
    return (folder / "ll144.html").as_uri()


@pytest.fixture(scope="module")
def annex_page(tmp_path_factory):
    """A filing on a model, with many blanks."""
    evidence = make_evidence(LONG_NAMES)
    annex_iv(evidence, evidence).write(folder := tmp_path_factory.mktemp("annex_iv"))
    return (folder / "annex_iv.html").as_uri()


@pytest.fixture(scope="module")
def risk_page(tmp_path_factory):
    """A filing that compares models."""
    model_risk(make_evidence(LONG_NAMES)).write(folder := tmp_path_factory.mktemp("model_risk"))
    return (folder / "model_risk.html").as_uri()


PAGES = ["page", "wide_page", "number_page", "class_page", "bias_page", "annex_page", "risk_page"]


@pytest.fixture
def opened(browser, page):
    """The page, freshly loaded, on a wide screen."""
    resize(browser, 1280)
    browser.get_log("performance"), browser.get_log("browser")
    browser.get(page)
    return browser


def resize(browser, width, height=900):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(browser, scheme):
    wish = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)


def cells(table):
    """Texts of a table's body, row by row."""
    return [
        [c.text for c in row.find_elements(By.CSS_SELECTOR, "th, td")]
        for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]


def figure(text):
    """The figure of an entry, without its mark and its interval."""
    return re.search(r"-?\d+\.\d+", text).group()


def test_no_errors_and_no_network(opened, page):
    assert opened.get_log("browser") == []
    events = [json.loads(e["message"])["message"] for e in opened.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [page]


def test_the_policy_stops_what_slips_in(opened):
    """Were a value not escaped, it still could neither run nor load."""
    opened.execute_script(
        "const s = document.createElement('script'); s.textContent = \"document.title='hit'\";"
        "document.body.append(s);"
        "const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i);"
    )
    assert "hit" not in opened.title.replace(SCRIPT, "")
    refused = [line["message"] for line in opened.get_log("browser")]
    assert len(refused) == 2
    assert all("Content Security Policy" in line for line in refused)


def test_names_are_text(opened):
    assert opened.title == f"Loans {SCRIPT}"
    assert opened.find_element(By.TAG_NAME, "h1").text == f"Loans {SCRIPT}"
    assert opened.find_elements(By.TAG_NAME, "img") == []
    scripts = opened.find_elements(By.TAG_NAME, "script")
    assert [s.get_attribute("type") for s in scripts] == ["application/json", ""]
    table = opened.find_element(By.CSS_SELECTOR, ".slider table")
    assert {group for _, group, *_ in cells(table)} == {
        "everyone",
        *(group for groups in GROUPS.values() for group in groups),
    }


def test_slider_moves_the_table_and_the_mark(opened):
    part = opened.find_element(By.CLASS_NAME, "slider")
    slider, table = (part.find_element(By.TAG_NAME, tag) for tag in ("input", "table"))
    evidence = make_evidence()
    start = evidence.tradeoff.chosen
    assert int(slider.get_attribute("value")) == start

    def check(k):
        point = evidence.tradeoff.points[k]
        said = part.find_element(By.TAG_NAME, "output").text
        assert said.startswith(point.name)
        assert slider.get_attribute("aria-valuetext") == said
        shown = [figure(row[2]) for row in cells(table)]
        assert shown == [f"{r.value:.3f}" for r in point.rates if r.rate == "fnr"]
        shades = [e.get_attribute("class") for e in table.find_elements(By.CSS_SELECTOR, "td")]
        assert set(shades) == {"", "shade-1"}
        (ring,) = opened.find_elements(By.CSS_SELECTOR, ".current")
        assert ring.get_attribute("id").endswith(f"-ring-{k}")
        assert ring.is_displayed()

    check(start)
    slider.send_keys(Keys.ARROW_RIGHT)
    check(start + 1)
    slider.send_keys(Keys.HOME)
    check(0)
    slider.send_keys(Keys.END)
    check(len(evidence.tradeoff.points) - 1)


def test_slider_finds_its_rows_after_sorting(opened):
    part = opened.find_element(By.CLASS_NAME, "slider")
    head = part.find_elements(By.CSS_SELECTOR, "thead button")[2]
    head.send_keys(Keys.ENTER)
    head.send_keys(Keys.ENTER)
    part.find_element(By.TAG_NAME, "input").send_keys(Keys.HOME)
    rows = cells(part.find_element(By.TAG_NAME, "table"))
    first = {r.group: r.value for r in make_evidence().tradeoff.points[0].rates if r.rate == "fnr"}
    assert {row[1]: figure(row[2]) for row in rows} == {
        group: f"{value:.3f}" for group, value in first.items()
    }
    assert rows[-1][1] == "everyone"


def test_tables_sort_by_figure_and_by_text(opened):
    part = opened.find_element(By.CLASS_NAME, "slider")
    heads = part.find_elements(By.CSS_SELECTOR, "thead th")
    table = part.find_element(By.TAG_NAME, "table")
    figures = [figure(row[2]) for row in cells(table)]
    heads[2].find_element(By.TAG_NAME, "button").click()
    assert [figure(row[2]) for row in cells(table)] == sorted(figures)
    assert heads[2].get_attribute("aria-sort") == "ascending"
    heads[2].find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert [figure(row[2]) for row in cells(table)] == sorted(figures, reverse=True)
    assert heads[2].get_attribute("aria-sort") == "descending"
    heads[1].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert heads[2].get_attribute("aria-sort") is None
    groups = [row[1] for row in cells(table)]
    assert groups.index("everyone") < groups.index("female") < groups.index("male")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", PAGES)
def test_nothing_is_lost_from_side_to_side(browser, request, which, scheme):
    prefer(browser, scheme)
    browser.get(request.getfixturevalue(which))
    browser.execute_script(UNFOLD)
    for width in (360, 390, 768, 980, 1280, 1920):
        resize(browser, width)
        assert browser.execute_script("return innerWidth") == width
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script(LOST) == [], width
        sizes = browser.execute_script(PICTURES)
        assert all(200 < size <= width for size in sizes), width
    prefer(browser, "light")


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_every_verdict_is_seen(browser, wide_page, width):
    resize(browser, width)
    browser.get(wide_page)
    statuses = [f.status for f in make_evidence(LONG_NAMES).verdicts]
    section = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=what-was-met]")
    verdicts = section.find_elements(By.CSS_SELECTOR, "tbody tr > :nth-child(5)")
    assert [cell.text.split(" ", 1)[1] for cell in verdicts] == statuses
    assert browser.execute_script(COVERED) == []


def test_constraints_on_every_class_are_told_as_one(browser, class_page):
    resize(browser, 1280)
    browser.get(class_page)
    section = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=what-was-met]")
    first, each = section.find_elements(By.TAG_NAME, "table")
    assert [row[2] for row in cells(first)] == [
        "? 20 of 25 met; 5 met on these rows, not certain"
    ] * 2
    assert not each.is_displayed()
    summary = section.find_element(By.TAG_NAME, "summary")
    assert summary.text == "All 25 constraints, one by one"
    summary.send_keys(Keys.ENTER)
    assert each.is_displayed()
    assert len(cells(each)) == 50


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", PAGES)
def test_text_can_be_read(browser, request, which, scheme):
    resize(browser, 1280)
    prefer(browser, scheme)
    browser.get(request.getfixturevalue(which))
    browser.execute_script(UNFOLD)
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert browser.execute_script(CONTRAST) == []
    if which == "wide_page":
        shades = [browser.find_elements(By.CLASS_NAME, f"shade-{k}") for k in range(1, 5)]
        assert all(shades)  # and so all of them can be read on
    prefer(browser, "light")


@pytest.mark.parametrize("width", [360, 1280])
def test_cards_are_tables_to_those_who_do_not_see_them(opened, width):
    resize(opened, width)
    for selector, role in {"table": "table", "tbody tr": "row", "tbody th": "rowheader"}.items():
        assert opened.find_element(By.CSS_SELECTOR, selector).aria_role == role
    entry = opened.find_element(By.CSS_SELECTOR, "tbody td")
    assert entry.aria_role == "cell"
    shown = opened.execute_script(
        "return getComputedStyle(arguments[0], '::before').content", entry
    )
    assert shown == ('"measured on"' if width == 360 else "none")


def test_structure_for_those_who_do_not_see_it(opened):
    assert opened.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    levels = [int(h.tag_name[1]) for h in opened.find_elements(By.CSS_SELECTOR, "h1,h2,h3,h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    pictures = opened.find_elements(By.CSS_SELECTOR, "figure svg")
    assert len(pictures) >= 8
    for picture in pictures:
        assert picture.get_attribute("role") == "img"
        assert len(picture.get_attribute("aria-label")) > 20
    for table in opened.find_elements(By.TAG_NAME, "table"):
        assert table.find_elements(By.CSS_SELECTOR, "tbody th[scope=row]")
        heads = table.find_elements(By.CSS_SELECTOR, "thead th")
        assert {head.get_attribute("scope") for head in heads} == {"col"}
    names = opened.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(names)) == len(names)
    slider = opened.find_element(By.CSS_SELECTOR, "input[type=range]")
    assert slider.accessible_name == "Model along the trade-off"


@pytest.mark.parametrize("which", PAGES)
def test_nothing_is_lost_in_print(browser, request, which):
    resize(browser, 700)  # A4 within its margins
    browser.get(request.getfixturevalue(which))
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.find_elements(By.CSS_SELECTOR, "details:not([open])") == []
    assert browser.execute_script(LOST) == []
    tables = browser.execute_script(
        "return [...document.querySelectorAll('thead')].map(e => getComputedStyle(e).display)"
    )
    assert set(tables) == {"table-header-group"}  # no cards, and headers again on every page
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_it_prints(opened):
    printed = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 4
