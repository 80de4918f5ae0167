"""The leaderboard in headless Chromium, from disk: it sorts, its links open the episodes they name, nothing is logged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from orchestrator.report.comparisons.leaderboard import build_leaderboard
from orchestrator.report.html import write_page
from orchestrator.report.html.leaderboard_page import write_leaderboard
from orchestrator.report.read_run import read_run, read_runs
from tests.orchestrator.report.comparisons.test_leaderboard import run
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, browsing
from tests.orchestrator.report.html.test_page_browser import column, drain, numbers, requested

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with browsing() as driver:
        yield driver


def test_it_sorts_and_leads_to_episodes(browser, demo_data, tmp_path):
    one = run(demo_data, tmp_path / "a run", ["qwen2.5-vl-7b", "internvl3-8b"])
    two = run(demo_data, tmp_path / "two", ["llava-ov-7b"])
    write_page(read_run(one), thumbnails=20)
    browser.get("about:blank")
    drain(browser)
    browser.get(write_leaderboard(build_leaderboard(read_runs([one, two])), tmp_path / "board.html").as_uri())
    head = browser.find_elements(By.CSS_SELECTOR, "#table-zero-shot thead th")
    place = next(n for n, cell in enumerate(head) if cell.text.startswith("Avg"))

    assert column(browser, "zero-shot", 2) == ["1", "2", "3"]
    for direction in ("descending", "ascending"):
        head[place].find_element(By.TAG_NAME, "button").click()
        assert head[place].get_attribute("aria-sort") == direction
        found = numbers(column(browser, "zero-shot", place))
        assert found == sorted(found, reverse=direction == "descending") and len(set(found)) == 3
    Select(browser.find_element(By.CSS_SELECTOR, "#table-zero-shot select")).select_by_visible_text("two")
    assert column(browser, "zero-shot", 0) == ["llava-ov-7b"]
    assert column(browser, "zero-shot-baselines", 0) == ["oracle", "guess"]

    link = browser.find_element(By.CSS_SELECTOR, "#table-zero-shot-baselines tbody tr a")
    browser.execute_script("arguments[0].click()", link)
    WebDriverWait(browser, 60).until(lambda b: b.find_elements(By.ID, "found"))
    WebDriverWait(browser, 60).until(lambda b: b.find_element(By.ID, "found").text.startswith("10 of "))
    assert browser.find_element(By.CSS_SELECTOR, "#episode h3").text.startswith("oracle, ROD, zero-shot: ")
    assert browser.get_log("browser") == []
    assert {address.partition(":")[0] for address in requested(browser)} <= {"file", "data"}
