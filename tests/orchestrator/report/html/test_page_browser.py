"""The page in headless Chromium, opened from disk: by clicks, by keys only, on a phone, in dark mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from orchestrator.report.html import write_page
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser
from tests.orchestrator.report.html.test_page import HOSTILE, hostile_run, judge

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
ALARM = "window.alert = window.confirm = window.prompt = (text) => { window.fired = text; };"


@pytest.fixture(scope="module")
def page(demo_data, tmp_path_factory) -> str:
    run = hostile_run(tmp_path_factory.mktemp("browser") / "run", demo_data)
    judge(run, read_run(run).episodes.filter(model="always-ask", scenario="COCO")["key"][0])
    return write_page(read_run(run)).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with open_browser() as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ALARM})
        yield driver


@pytest.fixture
def open_page(browser, page) -> Iterator[Callable[..., webdriver.Chrome]]:
    """Return a function that opens the page; afterwards, nothing may be logged, requested or triggered."""

    def open_(fragment: str = "", width: int = 1300, height: int = 900, dark: bool = False) -> webdriver.Chrome:
        browser.get("about:blank")
        drain(browser)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        browser.get(page + fragment)
        return browser

    yield open_
    assert browser.get_log("browser") == []
    assert {address.partition(":")[0] for address in requested_addresses(browser)} <= {"file", "data"}
    assert browser.execute_script("return window.fired") is None


def drain(browser) -> None:
    browser.get_log("browser")
    browser.get_log("performance")


def requested_addresses(browser) -> list[str]:
    """Return the addresses that the page requested."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [address for address in sent if address != "about:blank"]


def find_elements(browser, selector: str):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def find_element(browser, selector: str):
    return browser.find_element(By.CSS_SELECTOR, selector)


def column(browser, table: str, number: int) -> list[str]:
    """Return the texts of a column's visible rows."""
    script = (
        "return [...document.querySelectorAll(`#table-${arguments[0]} tbody tr:not([hidden])`)]"
        ".map((row) => row.cells[arguments[1]].querySelector('.t')?.textContent ?? '')"
    )
    return browser.execute_script(script, table, number)


def press(browser, *keys: str) -> None:
    webdriver.ActionChains(browser).send_keys(*keys).perform()


def focused_value(browser, script: str = "return document.activeElement.textContent"):
    return browser.execute_script(script)


def pick(browser, field: str, value: str) -> None:
    Select(find_element(browser, f"#f-{field}")).select_by_value(value)


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace("−", "-")) for text in texts if text != "-"]


# -- the file ----------------------------------------------------------------------------------------------------------
def test_page_opens_from_disk_without_requests(open_page, page):
    browser = open_page()
    assert requested_addresses(browser)[:1] == [page]
    assert browser.title == "test – ProactiveBench sweep"
    pictures = "return [...document.images].filter((one) => one.complete).every((one) => one.naturalWidth > 0)"
    WebDriverWait(browser, 20).until(lambda b: len(find_elements(b, "figure img")) >= 4 and b.execute_script(pictures))
    styled = browser.execute_script("return getComputedStyle(document.querySelector('nav')).position")
    assert styled == "sticky"


def test_policy_blocks_foreign_script_and_picture(open_page):
    browser = open_page()
    browser.execute_script(
        "const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script);"
        "const picture = new Image(); picture.src = 'http://127.0.0.1:9/none.png'; document.body.append(picture);"
    )
    stopped: list[dict[str, str]] = []
    WebDriverWait(browser, 20).until(lambda b: stopped.extend(b.get_log("browser")) or len(stopped) >= 2)
    assert all("Content Security Policy" in entry["message"] for entry in stopped)
    assert browser.execute_script("return window.ran") is None
    drain(browser)  # requests of this test itself


# -- tables ------------------------------------------------------------------------------------------------------------
def test_heading_sorts_and_sets_aria_sort(open_page):
    browser = open_page()
    head = find_elements(browser, "#table-cells thead th")[3]
    before = column(browser, "cells", 3)
    for direction in ("descending", "ascending", "descending"):
        head.find_element(By.TAG_NAME, "button").click()
        after = column(browser, "cells", 3)
        assert head.get_attribute("aria-sort") == direction
        assert numbers(after) == sorted(numbers(after), reverse=direction == "descending")
        gaps = before.count("-")
        assert gaps and after[-gaps:] == ["-"] * gaps  # rows without a number come last in both directions
        assert sorted(after) == sorted(before)
    sorted_heads = [
        th for th in find_elements(browser, "#table-cells thead th") if th.get_attribute("aria-sort") != "none"
    ]
    assert len(sorted_heads) == 1


def test_texts_sort_upwards_first(open_page):
    browser = open_page()
    find_elements(browser, "#table-cells thead button")[1].click()
    assert column(browser, "cells", 1) == sorted(column(browser, "cells", 1), key=str.lower)


def test_filters_narrow_rows_and_count_them(open_page):
    browser = open_page()
    models = Select(find_elements(browser, "#table-cells select")[0])
    models.select_by_visible_text("oracle")
    assert set(column(browser, "cells", 0)) == {"oracle"}
    find_element(browser, "#table-cells input").send_keys("vsod hint")
    assert [column(browser, "cells", n) for n in range(3)] == [["oracle"], ["VSOD"], ["hint"]]
    assert find_element(browser, "#table-cells .count").text == "1 of 60 rows"
    models.select_by_visible_text("all")
    assert find_element(browser, "#table-cells .count").text == "3 of 60 rows"


def test_cell_links_to_its_episodes(open_page):
    browser = open_page()
    find_element(browser, "#table-cells input").send_keys("always-ask coco hint")
    find_element(browser, "#table-cells tbody tr:not([hidden]) a").click()
    WebDriverWait(browser, 20).until(lambda b: find_element(b, "#found").text == "10 of 600 episodes")
    assert find_element(browser, "#episode h3").text.startswith("always-ask, COCO, hint: ")


# -- episodes ----------------------------------------------------------------------------------------------------------
def test_episode_browser_works_by_clicks(open_page):
    browser = open_page()
    for field, value in (("model", "oracle"), ("scenario", "COCO"), ("condition", "zero-shot"), ("kind", "correct")):
        pick(browser, field, value)
    assert find_element(browser, "#found").text == "10 of 600 episodes"
    assert "(10)" in Select(find_element(browser, "#f-kind")).first_selected_option.text
    find_elements(browser, "#list button")[2].click()
    key = find_elements(browser, "#list li")[2].get_attribute("data-key")
    assert find_element(browser, ".ep-key").text == key and browser.current_url.endswith(f"#episode={key}")
    assert find_elements(browser, "#list button")[2].get_attribute("aria-current") == "true"
    cards = find_elements(browser, ".strip .card")
    turns = int(find_element(browser, ".ep-facts").text.partition("turns ")[2].split()[0])
    assert len(cards) == turns + 1 and cards[-1].text.startswith("Ending\ncorrect")
    loaded = "return [...document.querySelectorAll('.shot img')].every((one) => one.complete && one.naturalWidth > 20)"
    WebDriverWait(browser, 20).until(lambda b: b.execute_script(loaded))
    assert len(find_elements(cards[-2], ".options .said.right")) == 1
    assert "category" in cards[-2].text and "as category: correct" in cards[-2].text
    find_element(browser, "#next").click()
    assert find_element(browser, ".ep-key").text != key and focused_value(browser) == "Next"
    find_element(browser, "#previous").click()
    assert find_element(browser, ".ep-key").text == key


def test_episode_browser_works_by_keys(open_page):
    browser = open_page()
    browser.execute_script("document.getElementById('f-model').focus()")
    press(browser, "o")  # typing the beginning selects from a list
    assert Select(find_element(browser, "#f-model")).first_selected_option.get_attribute("value") == "oracle"
    press(browser, *[Keys.TAB] * 4)
    assert focused_value(browser, "return document.activeElement.id") == "f-text"
    press(browser, "coco hint")
    press(browser, Keys.TAB)
    while focused_value(browser, "return document.activeElement.closest('#list') === null"):
        press(browser, Keys.TAB)
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP, Keys.ENTER)
    key = find_elements(browser, "#list li")[1].get_attribute("data-key")
    assert find_element(browser, ".ep-key").text == key
    press(browser, Keys.END)
    press(browser, Keys.ENTER)
    assert find_element(browser, ".ep-key").text == find_elements(browser, "#list li")[-1].get_attribute("data-key")


def test_tables_work_by_keys(open_page):
    browser = open_page()
    browser.execute_script("document.querySelectorAll('#table-cells thead button')[3].focus()")
    press(browser, Keys.ENTER)
    assert find_elements(browser, "#table-cells thead th")[3].get_attribute("aria-sort") == "descending"
    press(browser, Keys.SPACE)
    assert find_elements(browser, "#table-cells thead th")[3].get_attribute("aria-sort") == "ascending"
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_link_opens_its_episode(open_page):
    browser = open_page()
    key = browser.execute_script("return [...document.querySelectorAll('#list li')].at(-2).dataset.key")
    open_page(f"#episode={key}")
    assert find_element(browser, ".ep-key").text == key
    browser.execute_script("location.hash = '#episode=no/such/<b>key</b>'")
    WebDriverWait(browser, 20).until(lambda b: find_elements(b, "#absent"))
    assert "not this one: no/such/<b>key</b>" in find_element(browser, "#absent").text
    browser.back()
    WebDriverWait(browser, 20).until(lambda b: find_elements(b, ".ep-key"))
    assert find_element(browser, ".ep-key").text == key


def test_two_conditions_side_by_side(open_page):
    browser = open_page()
    for field, value in (("model", "always-ask"), ("scenario", "ROD"), ("condition", "zero-shot")):
        pick(browser, field, value)
    find_elements(browser, "#list button")[0].click()
    options = [option for option in find_elements(browser, "#beside option") if option.text.startswith("hint")]
    Select(find_element(browser, "#beside")).select_by_value(options[0].get_attribute("value"))
    lanes = find_elements(browser, ".lane")
    assert [lane.find_element(By.CLASS_NAME, "lane-head").text for lane in lanes] == ["zero-shot", "hint"]
    questions = [lane.find_element(By.CLASS_NAME, "ask").text for lane in lanes]
    assert questions[1].startswith(questions[0]) and "Hint:" in questions[1] and "Hint:" not in questions[0]
    lefts = [lane.find_elements(By.CLASS_NAME, "card")[1].rect["x"] for lane in lanes]
    assert lefts[0] == lefts[1]  # turns are aligned
    address = browser.current_url
    assert "&beside=always-ask/ROD/hint/" in address
    open_page("#" + address.partition("#")[2])
    assert len(find_elements(browser, ".lane")) == 2


def test_hostile_replies_are_only_text(open_page):
    browser = open_page()
    pick(browser, "model", "uniform")
    texts: dict[str, str] = {}
    for index in range(12):
        browser.execute_script("document.querySelectorAll('#list button')[arguments[0]].click()", index * 9)
        for box in find_elements(browser, ".strip .reply"):
            text = browser.execute_script("return arguments[0].textContent", box)
            texts[text[:12]] = text
            assert not box.find_elements(By.CSS_SELECTOR, "script, img, b, a")
    assert HOSTILE[0] in texts.values() and HOSTILE[1] in texts.values() and HOSTILE[5] in texts.values()
    assert texts[HOSTILE[2][:6] + "eU+202E"[:6]].startswith("A. fineU+202Egnp.exeU+0000U+001B[31mU+2028U+200Bend")
    assert texts["x" * 12] == "x" * 2000 and texts["empty reply"] == "empty reply"
    find_element(browser, "#f-text").send_keys("xxxxxxxxxx")
    browser.execute_script("document.querySelector('#list button').click()")
    assert "first 2,000 of 1,000,000 characters" in find_element(browser, ".lanes").text
    assert len(find_elements(browser, "script")) == 2


def test_errors_are_shown_as_text(open_page):
    browser = open_page()
    pick(browser, "kind", "unprocessable")
    find_elements(browser, "#list button")[0].click()
    assert "QD: <b>refused</b> \\u202eby the processor" in find_element(browser, ".end").text
    assert find_element(browser, ".problems").text.startswith("Before you read on")


def test_the_judges_reasoning_is_shown_as_text(open_page):
    browser = open_page()
    key = browser.execute_script(
        "return JSON.parse(document.getElementById('content').textContent).episodes.find((one) => one.judged).key"
    )
    open_page(f"#episode={key}")
    ending_text = find_element(browser, ".end").text
    assert (
        f"text: {HOSTILE[0]} so: 1, 0" in ending_text
        and "judge: rule-1" in ending_text
        and "category: true" in ending_text
    )


# -- any screen --------------------------------------------------------------------------------------------------------
def overflow(browser) -> int:
    """Return by how many pixels the page is wider than its window."""
    wide = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
    return browser.execute_script(f"return {wide} - document.documentElement.clientWidth")


@pytest.mark.parametrize("size", [320, 375, 768, 1024])
def test_a_narrow_screen_never_scrolls_sideways(open_page, size):
    browser = open_page(width=size, height=812)
    assert overflow(browser) == 0
    pick(browser, "model", "uniform")
    find_element(browser, "#f-text").send_keys("xxxxxxxxxx")
    browser.execute_script("document.querySelector('#list button').click()")
    select = find_element(browser, "#beside")
    if len(Select(select).options) > 1:
        Select(select).select_by_index(1)
    assert overflow(browser) == 0
    fits = "(one) => one.getBoundingClientRect().right <= innerWidth"
    assert browser.execute_script(f"return [...document.querySelectorAll('select, input, h1, h2, h3')].every({fits})")


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_in_light_and_dark(open_page, dark):
    browser = open_page(dark=dark)
    back = luminance(browser, "body", "backgroundColor")
    assert back < 0.05 if dark else back > 0.85
    for selector, property_ in (
        ("body", "color"), (".about", "color"), ("dt", "color"), ("thead button", "color"), (".note", "color"),
        ("a.ep-key", "color"), (".ep-facts", "color"), (".options em", "color"),
    ):  # fmt: skip
        assert contrast(luminance(browser, selector, property_), back) >= 4.5, selector


def luminance(browser, selector: str, property_: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    colour = browser.execute_script(
        f"return getComputedStyle(document.querySelector('{selector}')).{property_}.match(/[0-9.]+/g).map(Number)"
    )
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(first: float, second: float) -> float:
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


def test_print_has_full_tables_without_controls(open_page):
    browser = open_page()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    gone = "(one) => getComputedStyle(document.querySelector(one)).display === 'none'"
    hidden = f"return ['nav', '.filters', '.list', '.ep-tools'].every({gone})"
    full_table = (
        "const box = document.querySelector('#table-cells .scroll'); return box.scrollHeight <= box.clientHeight + 1"
    )
    assert browser.execute_script(hidden) and browser.execute_script(full_table)
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert browser.execute_script(style, "thead button", "display") == "contents", "else a repeated heading is empty"
    assert browser.execute_script(style, ".table-head", "breakAfter") == "avoid"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
