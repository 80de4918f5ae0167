"""The leaderboard in headless Chromium, opened from disk: it sorts, links open the run's page, and nothing is logged."""

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
from tests.orchestrator.report.comparisons.test_leaderboard import play_models
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser
from tests.orchestrator.report.html.test_page_browser import column, drain, numbers, requested_addresses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with open_browser() as driver:
        yield driver


def test_leaderboard_sorts_and_links_to_its_runs(browser, demo_data, tmp_path):
    first = play_models(demo_data, tmp_path / "a run", ["qwen2.5-vl-7b", "internvl3-8b"])
    second = play_models(demo_data, tmp_path / "two", ["llava-ov-7b"])
    write_page(read_run(first))
    browser.get("about:blank")
    drain(browser)
    browser.get(write_leaderboard(build_leaderboard(read_runs([first, second])), tmp_path / "board.html").as_uri())
    head = browser.find_elements(By.CSS_SELECTOR, "#table-zero-shot thead th")
    position = next(n for n, cell in enumerate(head) if cell.text.startswith("Avg"))

    assert column(browser, "zero-shot", 2) == ["1", "2", "3"]
    for direction in ("descending", "ascending"):
        head[position].find_element(By.TAG_NAME, "button").click()
        assert head[position].get_attribute("aria-sort") == direction
        averages = numbers(column(browser, "zero-shot", position))
        assert averages == sorted(averages, reverse=direction == "descending") and len(set(averages)) == 3
    Select(browser.find_element(By.CSS_SELECTOR, "#table-zero-shot select")).select_by_visible_text("two")
    assert column(browser, "zero-shot", 0) == ["llava-ov-7b"]
    assert column(browser, "zero-shot-baselines", 0) == ["oracle", "guess"]

    link = browser.find_element(By.CSS_SELECTOR, "#table-zero-shot-baselines tbody tr a")
    browser.execute_script("arguments[0].click()", link)
    WebDriverWait(browser, 60).until(lambda b: b.find_elements(By.ID, "table-answer"))
    assert browser.get_log("browser") == []
    assert {address.partition(":")[0] for address in requested_addresses(browser)} <= {"file", "data"}
