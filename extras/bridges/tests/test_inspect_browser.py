"""Inspect's own viewer, in Chromium, opens an exported log and shows an episode with its pictures, answer and scores."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from urllib.request import urlopen

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from orchestrator.export import export
from tests.orchestrator.rayhead import free_ports
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser
from tests.orchestrator.report.runs import play_sweep, sweep

pytestmark = [pytest.mark.long, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium is not installed")]
WAIT_S = 180
ROW = "//*[starts-with(text(), 'QD-')]"
LOADED = """const all = [...document.querySelectorAll("img[src^='data:image/webp']")];
    return all.every((picture) => picture.naturalWidth > 50) && all.map((picture) => picture.src);"""


@contextmanager
def view_logs(folder):
    """Serve a folder with Inspect's viewer on loopback; yield its address."""
    (port,) = free_ports(1)
    command = ["view", "start", "--log-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    code = "import sys; from inspect_ai._cli.main import main; sys.argv[0] = 'inspect'; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait = WebDriverWait(None, WAIT_S, ignored_exceptions=[OSError])
        wait.until(lambda _: urlopen(f"http://127.0.0.1:{port}/").status == 200)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(WAIT_S)


def test_inspects_viewer_shows_an_episode_with_its_pictures(demo_data, tmp_path):
    pytest.importorskip("inspect_ai", reason="the extra `inspect` is not installed")
    run = play_sweep(tmp_path / "run", sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["ROD", "QD"]))
    export(run, "inspect", tmp_path / "logs")

    with view_logs(tmp_path / "logs") as address, open_browser() as browser:
        wait = WebDriverWait(browser, WAIT_S, ignored_exceptions=[StaleElementReferenceException])  # it renders twice
        browser.get(address)
        name = wait.until(lambda page: page.find_element(By.XPATH, ROW).text)
        assert re.search(r"ACC\s.*\b1\.0\b", browser.find_element(By.TAG_NAME, "body").text, re.I | re.S)
        wait.until(lambda page: page.find_element(By.XPATH, ROW).click() is None)
        pictures = wait.until(lambda page: page.execute_script(LOADED))
        text = browser.find_element(By.TAG_NAME, "body").text
        assert name in text and "Please only return one of the options" in text
        assert text.count("ASSISTANT\n") == len(pictures), "a reply per picture"
        assert len(pictures) > 1
        severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        # the viewer asks for a file that few folders have
        assert [message for message in severe if "/api/flow?" not in message] == []
