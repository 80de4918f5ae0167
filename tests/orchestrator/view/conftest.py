"""Runs that several tests of the page read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.orchestrator.report.html.chromium import open_browser
from tests.orchestrator.report.runs import play_sweep, sweep
from tests.orchestrator.view.hostile_run import ALARM, CONDITIONS, hostile_run


@pytest.fixture(scope="session")
def two_folders(demo_data, tmp_path_factory) -> dict[str, Path]:
    """A run with hostile replies, and one of another model."""
    folder = tmp_path_factory.mktemp("view")
    other = play_sweep(folder / "other", sweep(demo_data, ["uniform"], CONDITIONS, scenarios=["ROD"]))
    return {"run": hostile_run(folder / "run", demo_data), "other": other}


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium, in which a script of a hostile text would set off an alarm."""
    with open_browser() as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ALARM})
        yield driver
