"""A person in headless Chromium plays the oracle's script through all seven scenarios, by keys and clicks, killed once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from sitting import oracle_turns, person, texts
from test_sitting import comparable_rows

from orchestrator.storage.episode_store import turns
from tests.conftest import ROOT
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser
from tests.orchestrator.report.runs import play_sweep, sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
CONDITIONS = "history"
QUESTION = (
    "return document.readyState !== 'complete' ? '' : document.querySelector('[name=question]')?.value ?? 'none left'"
)


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with open_browser() as driver:
        yield driver


class Program:
    """``play`` in a process of its own."""

    def __init__(self, data: Path, output: Path) -> None:
        command = [sys.executable, "-m", "orchestrator", "play", data, "--as", "ada", "--samples", "1"]
        command += ["--conditions", CONDITIONS, "--set", "name=test", "--output", output]
        self.process = subprocess.Popen(
            [*map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = next(line for line in self.process.stdout if line.startswith("open "))
        self.address = line.split()[1]


def element_texts(browser, selector: str) -> list[str]:
    return browser.execute_script(f"return [...document.querySelectorAll('{selector}')].map((one) => one.textContent)")


def answer(browser, reply: str, by_keys: bool) -> None:
    """Choose an option and send it: its letter and Enter, or two clicks."""
    index, before = element_texts(browser, ".option").index(reply), browser.execute_script(QUESTION)
    if by_keys:
        webdriver.ActionChains(browser).send_keys(chr(97 + index), Keys.ENTER).perform()
    else:
        browser.find_elements(By.CSS_SELECTOR, "label")[index].click()
        browser.find_element(By.CSS_SELECTOR, "button").click()
    WebDriverWait(browser, 60, 0.02).until(lambda b: b.execute_script(QUESTION) not in (before, ""))


def test_the_oracles_script_in_a_browser(browser, demo_data, tmp_path):
    spec, output = person(demo_data, CONDITIONS, name="test"), tmp_path / "ada"
    script = oracle_turns(spec)
    program = Program(demo_data, output)
    try:
        browser.get(program.address)
        for step, (request, reply) in enumerate(script):
            if step == 6:
                program.process.kill()
                program.process.wait()
                program = Program(demo_data, output)
                browser.get(program.address)
            assert element_texts(browser, ".text") == texts(request.messages)
            loaded = "return [...document.images].every((one) => one.complete && one.naturalWidth > 20)"
            assert browser.execute_script(loaded)
            answer(browser, reply, by_keys=step % 6 != 3)
        assert element_texts(browser, "h1") == ["All episodes are played"]
        out, _ = program.process.communicate(timeout=60)
    finally:
        program.process.kill()
    oracle_run = play_sweep(
        tmp_path / "oracle", sweep(demo_data, ["oracle"], CONDITIONS.split(","), selection={"limit": 1})
    )

    assert browser.get_log("browser") == []
    assert program.process.returncode == 0 and "human-ada" in out
    assert all(
        own.equals(expected) for own, expected in zip(comparable_rows(output), comparable_rows(oracle_run), strict=True)
    )
    assert turns(output).collect().height == len(script)
