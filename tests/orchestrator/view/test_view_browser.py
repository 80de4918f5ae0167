"""The page of ``view`` in headless Chromium: filters, keys, links, two episodes side by side, a run that grows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER
from tests.orchestrator.report.runs import play_sweep, sweep
from tests.orchestrator.view.served import served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]


@pytest.fixture(scope="module")
def address(two_folders) -> Iterator[str]:
    with served(two_folders) as address:
        yield address


@pytest.fixture
def open_page(browser, address):
    """Return a function that opens the page at a fragment; afterwards, nothing may be logged or triggered."""

    def open_(fragment: str = ""):
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(address + fragment)
        wait_for(browser, "document.querySelector('.ep-key, #absent')")
        return browser

    yield open_
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.fired") is None


def wait_for(browser, condition: str) -> None:
    WebDriverWait(browser, 60, 0.02).until(lambda b: b.execute_script(f"return Boolean({condition})"))


def press(browser, *keys: str) -> None:
    webdriver.ActionChains(browser).send_keys(*keys).perform()


def text(browser, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)


def test_filters_narrow_the_list_and_the_address_restores_them(open_page):
    browser = open_page()
    Select(browser.find_element(By.NAME, "model")).select_by_value("uniform")
    wait_for(browser, "document.querySelector('#matches').textContent.includes(' of ')")
    shown = text(browser, "#matches")
    assert "model=uniform" in browser.current_url

    browser.get("about:blank")
    open_page("#model=uniform")
    wait_for(browser, "document.querySelector('#matches').textContent.includes(' of ')")
    assert text(browser, "#matches") == shown


def test_arrows_move_through_the_list(open_page):
    browser = open_page("#model=oracle&run=run")
    first = text(browser, ".ep-key")
    press(browser, Keys.ARROW_RIGHT)
    wait_for(browser, f"document.querySelector('.ep-key').textContent !== '{first}'")
    press(browser, Keys.ARROW_LEFT)
    wait_for(browser, f"document.querySelector('.ep-key').textContent === '{first}'")


def test_every_hostile_reply_is_text(open_page):
    browser = open_page("#model=uniform&scenario=ROD&run=run")
    for _ in range(8):
        before = browser.current_url
        press(browser, Keys.ARROW_RIGHT)
        WebDriverWait(browser, 60, 0.02).until(lambda b, before=before: b.current_url != before)
    assert browser.execute_script("return document.querySelectorAll('.reply script, .reply img').length") == 0


def test_an_unknown_key_is_named(open_page):
    browser = open_page("#episode=<img src=x onerror=alert(1)>")
    assert "No stored episode" in text(browser, "#absent")
    browser.get_log("browser")  # the 404 is logged


def test_the_page_follows_a_run_that_grows(browser, demo_data, tmp_path):
    wanted, folder = sweep(demo_data, ["uniform"], ["zero-shot"], scenarios=["ROD"]), tmp_path / "run"
    play_sweep(folder, wanted, only=3)
    with served({"run": folder}) as address:
        browser.get(address)
        wait_for(browser, "document.querySelectorAll('#list li').length === 3")
        assert "3 of" in text(browser, "#progress")
        play_sweep(folder, wanted)
        wait_for(browser, "document.querySelectorAll('#list li').length > 3")
        wait_for(browser, "document.querySelector('#progress').textContent === ''")
        browser.get("about:blank")


def test_a_choice_beside_holds_after_another_run_has_grown(browser, demo_data, tmp_path):
    folders = {name: tmp_path / name for name in ("a", "b")}
    wanted = sweep(demo_data, ["uniform"], ["zero-shot", "hint"], scenarios=["ROD"])
    play_sweep(folders["a"], wanted, only=3)
    play_sweep(folders["b"], wanted)
    with served(folders) as address:
        browser.get(f"{address}#episode=uniform/ROD/zero-shot/mcqa/3&episode_run=b")
        wait_for(browser, "document.querySelector('#beside')")
        key = text(browser, ".ep-key")
        play_sweep(folders["a"], wanted)
        wait_for(browser, "document.querySelector('#progress').textContent === ''")
        select = Select(browser.find_element(By.ID, "beside"))
        select.select_by_index(max(n for n, o in enumerate(select.options) if o.text.startswith("hint")))
        wait_for(browser, "document.querySelectorAll('.lane').length === 2")
        assert text(browser, ".ep-key") == key
        assert "beside=uniform/ROD/hint/mcqa/3&beside_run=b" in browser.current_url
        browser.get("about:blank")


def test_a_phone_has_no_sideways_scrolling(open_page):
    browser = open_page()
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
