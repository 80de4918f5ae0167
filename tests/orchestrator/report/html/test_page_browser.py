"""The page in headless Chromium, opened from disk: by clicks, by keys only, on a phone, in dark mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from orchestrator.report.html.page import write_page
from orchestrator.report.read_run import read_run
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser
from tests.orchestrator.view.hostile_run import ALARM, hostile_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]


@pytest.fixture(scope="module")
def page(demo_data, tmp_path_factory) -> str:
    run = hostile_run(tmp_path_factory.mktemp("browser") / "run", demo_data, "llava-ov-7b")
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


# -- the file ----------------------------------------------------------------------------------------------------------
def test_page_opens_from_disk_without_requests(open_page, page):
    browser = open_page()
    assert requested_addresses(browser)[:1] == [page]
    assert browser.title == "test – ProactiveBench sweep"
    pictures = "return [...document.images].every((one) => one.complete && one.naturalWidth > 0)"
    WebDriverWait(browser, 20).until(lambda b: find_elements(b, "figure img") and b.execute_script(pictures))
    styled = browser.execute_script("return getComputedStyle(document.querySelector('nav')).position")
    assert styled == "sticky"


# -- any screen --------------------------------------------------------------------------------------------------------
def overflow(browser) -> int:
    """Return by how many pixels the page is wider than its window."""
    wide = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
    return browser.execute_script(f"return {wide} - document.documentElement.clientWidth")


@pytest.mark.parametrize("size", [320, 375, 768, 1024])
def test_a_narrow_screen_never_scrolls_sideways(open_page, size):
    browser = open_page(width=size, height=812)
    browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert overflow(browser) == 0
    fits = "(one) => one.getBoundingClientRect().right <= innerWidth"
    assert browser.execute_script(f"return [...document.querySelectorAll('.answer, h1, h2, h3')].every({fits})")


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_in_light_and_dark(open_page, dark):
    browser = open_page(dark=dark)
    back = luminance(browser, "body", "backgroundColor")
    assert back < 0.05 if dark else back > 0.85
    for selector in ("body", ".answer", ".about", "dt", "thead th", ".note"):
        assert contrast(luminance(browser, selector, "color"), back) >= 4.5, selector


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
    assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
    full = (
        "const box = document.querySelector('#table-answer .scroll'); return box.scrollHeight <= box.clientHeight + 1"
    )
    assert browser.execute_script(full)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
