"""The pictures of the documentation, and every page in four forms, from the demo's run folders in headless Chromium.

``python -m tests.pictures`` writes the pictures in docs/ that show the demo (``make pictures`` plays it first). ``--forms DIR``
writes each page into DIR instead: light, dark, on a phone, and as printed.
"""

from __future__ import annotations

import argparse
import base64
import io
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.conftest import ROOT
from tests.orchestrator.report.html.chromium import open_browser
from tests.orchestrator.tracking.test_experiment_page import mlflow_ui
from tests.orchestrator.view.served import served

DEMO, DATA, CURVES = ROOT / "outputs/demo", ROOT / "outputs/demo-data", ROOT / "outputs/demo-operating"
EPISODE = ("embedded", "ROD", "hint")
"""Model, scenario and condition of the film strip."""
TURNS = 4
"""The film strip shows the first sample that ends right after so many turns."""
WIDTH, PHONE, COLORS = 1400, 390, 128
"""Pixels of a page on a screen and on a phone, and colors of a picture file."""
STRIP = ".lane"
"""CSS selector of the film strip."""

Prepare = Callable[[webdriver.Chrome], object]


def main(forms: Path | None) -> None:
    """Write the pictures, or every page in four forms."""
    for command in ("report", "track"):
        line = [sys.executable, "-m", "orchestrator", command, DEMO.relative_to(ROOT)]
        subprocess.run(line, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with ExitStack() as stack:
        addresses = {name: stack.enter_context(page) for name, page in pages().items()}
        browser = stack.enter_context(open_browser())
        if forms is None:
            write_pictures(browser, addresses, ROOT / "docs")
        else:
            write_forms(browser, addresses, forms)


def pages() -> dict[str, AbstractContextManager[str]]:
    """Return name -> a context that serves the page and yields its address."""
    return {
        "report": nullcontext((DEMO / "report.html").as_uri()),
        "view": served({DEMO.name: DEMO}, DATA),
        "play": serve_play(),
        "mlflow": mlflow_ui(DEMO),
    }


@contextmanager
def serve_play() -> Iterator[str]:
    """Serve the page of ``play`` with one sample under the condition history."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-u", "-m", "orchestrator", "play", DATA, "--as", "ada", "--samples", "1"]
        command += ["--conditions", "history", "--set", "name=pictures", "--output", f"{folder}/run"]
        process = subprocess.Popen([*map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield next(line for line in process.stdout if line.startswith("open ")).split()[1]
        finally:
            process.terminate()
            process.wait(30)


def episode_name() -> str:
    """Return the name of the film strip's episode."""
    import polars as pl

    model, scenario, condition = EPISODE
    rows = pl.read_parquet(DEMO / "episodes" / "*.parquet").filter(
        pl.col("model") == model,
        pl.col("scenario") == scenario,
        pl.col("condition") == condition,
        pl.col("correct"),
        pl.col("turns") == TURNS,
    )
    return f"{model}/{scenario}/{condition}/mcqa/{rows['sample_id'].sort()[0]}"


def write_pictures(browser: webdriver.Chrome, addresses: dict[str, str], folder: Path) -> None:
    """Write the pictures that the pages of the documentation show."""
    resize(browser, 1405, 1400)  # the strip shows its turns without the ending
    episode = f"{addresses['view']}#episode={quote(episode_name(), safe='')}&episode_run={DEMO.name}"
    load(browser, episode, STRIP)
    save(browser.find_element(By.CSS_SELECTOR, STRIP).screenshot_as_png, folder / "film-strip.png")
    resize(browser, WIDTH, 900)
    load(browser, addresses["report"], "#summary")
    save(browser.get_screenshot_as_png(), folder / "report.png")
    load(browser, episode, STRIP)
    save(browser.get_screenshot_as_png(), folder / "view.png")
    resize(browser, 1300, 900)
    load(browser, addresses["play"], ".option")
    ask_once(browser)
    save(whole_page(browser), folder / "play.png")
    resize(browser, 1400, 760)
    open_models(browser, addresses["mlflow"])
    save(browser.get_screenshot_as_png(), folder / "mlflow-models.png")
    open_trace(browser, addresses["mlflow"])
    save(browser.get_screenshot_as_png(), folder / "mlflow-trace.png")


def ask_once(browser: webdriver.Chrome) -> None:
    """Choose the last suggestion of ``play``, so that the next question has a history."""
    before = len(browser.find_elements(By.CSS_SELECTOR, "img"))
    options = browser.find_elements(By.CSS_SELECTOR, "label")[:3]
    [option for option in options if "Move" in option.text][-1].click()
    browser.find_element(By.CSS_SELECTOR, "button").click()
    WebDriverWait(browser, 60).until(lambda page: len(page.find_elements(By.CSS_SELECTOR, "img")) > before)
    time.sleep(1.0)


def open_models(browser: webdriver.Chrome, address: str) -> None:
    """Follow the links of MLflow's first page to the table of models, which opens in another window."""
    load(browser, f"{address}/", "a")
    wait = WebDriverWait(browser, 60)
    wait.until(lambda page: page.find_elements(By.LINK_TEXT, DEMO.name))[0].click()
    browser.execute_script(
        "arguments[0].click()", wait.until(lambda page: page.find_elements(By.LINK_TEXT, "models"))[0]
    )
    wait.until(lambda page: len(page.window_handles) > 1)
    browser.switch_to.window(browser.window_handles[-1])
    resize(browser, 1400, 760)
    wait.until(lambda page: "first-option" in page.find_element(By.TAG_NAME, "body").text)
    for button in browser.find_elements(By.CSS_SELECTOR, "[aria-label='Close']"):
        browser.execute_script("arguments[0].click()", button)
    time.sleep(2.0)


def open_trace(browser: webdriver.Chrome, address: str) -> None:
    """Open the trace that ``track`` sent first, with all its pictures."""
    with sqlite3.connect(DEMO / "mlflow.db") as store:
        experiment, trace = store.execute("select experiment_id, request_id from trace_info order by rowid").fetchone()
    traces = f"{address}/#/experiments/{experiment}/traces"
    load(browser, traces, "[aria-label='Close']")
    browser.find_elements(By.CSS_SELECTOR, "[aria-label='Close']")[-1].click()
    load(browser, f"{traces}?selectedEvaluationId={trace}", "[aria-label='Close']")
    pictures = "img[src^='blob:']"
    WebDriverWait(browser, 120).until(lambda page: page.find_elements(By.CSS_SELECTOR, pictures))
    time.sleep(3.0)  # the others


def write_forms(browser: webdriver.Chrome, addresses: dict[str, str], folder: Path) -> None:
    """Write each page in light, dark, on a phone and as printed (PDF)."""
    folder.mkdir(parents=True, exist_ok=True)
    ready = {"report": "#summary", "view": ".ep-key", "play": ".option"}
    for name, selector in ready.items():
        for form, (width, color) in {
            "light": (WIDTH, "light"),
            "dark": (WIDTH, "dark"),
            "phone": (PHONE, "light"),
        }.items():
            resize(browser, width, 900, color)
            load(browser, addresses[name], selector)
            save(whole_page(browser), folder / f"{name}-{form}.png")
        printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        (folder / f"{name}-print.pdf").write_bytes(base64.b64decode(printed["data"]))


def resize(browser: webdriver.Chrome, width: int, height: int, color: str = "light") -> None:
    """Set the size and the color scheme of the page; narrow pages are a phone's."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": color}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def load(browser: webdriver.Chrome, address: str, selector: str) -> None:
    """Open an address afresh and wait until it shows an element."""
    browser.get("about:blank")
    browser.get(address)
    WebDriverWait(browser, 60).until(lambda page: page.find_elements(By.CSS_SELECTOR, selector))
    time.sleep(1.0)  # until pictures are decoded


def whole_page(browser: webdriver.Chrome) -> bytes:
    """Return a picture of the whole page, at most 6,000 pixels high, as PNG."""
    height = min(6000, browser.execute_script("return document.body.scrollHeight"))
    width = browser.execute_script("return document.documentElement.clientWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    screenshot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    return base64.b64decode(screenshot["data"])


def save(png: bytes, path: Path) -> None:
    """Write a picture with ``COLORS`` colors, which takes a third of the bytes."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLORS).save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    parser.add_argument("--forms", type=Path, help="write every page in four forms into this folder instead")
    main(parser.parse_args().forms)
