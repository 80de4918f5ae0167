"""Headless Chromium for tests of pages, with its own home folder and no background requests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1300,900",
)  # fmt: skip


@contextmanager
def open_browser() -> Iterator[webdriver.Chrome]:
    """Yield a browser with a temporary profile for the duration of the block."""
    home = Path(tempfile.mkdtemp(prefix="chromium-"))
    driver = _start_driver(home)
    try:
        yield driver
    finally:
        driver.quit()
        shutil.rmtree(home, ignore_errors=True)


def _start_driver(home: Path) -> webdriver.Chrome:
    options = Options()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={home / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(DRIVER, env={**os.environ, "HOME": str(home), "TMPDIR": str(home)})
    return webdriver.Chrome(options=options, service=service)
