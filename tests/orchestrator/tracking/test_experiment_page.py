"""The pages that ``mlflow ui`` shows first lead to the sweep's results; with MLflow's own server, and Chromium."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from actors.engine.baselines import Baseline
from orchestrator.tracking.experiment_page import KIND, NOTE, RUNS_FIRST, views
from tests.orchestrator.mlflow_stores import client, closed_address, parent, row, runs, send, wait_until
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser
from tests.orchestrator.report.runs import play_sweep, sweep

LINKS = ", ".join(
    f"[{name}](#/experiments/1/runs?viewStateShareKey=proactive-sweep-{view}&compareRunsMode=CHART)"
    for view, name in (("models", "models"), ("sweeps", "sweeps side by side"), ("cells", "cells"))
)


def test_the_description_says_whether_models_ask_and_links_to_views(demo_data, folder):
    mine = {"name": "my_model", "source": "nobody/nothing", "backend": "transformers", "gpus": 0}
    wanted = sweep(demo_data, ["oracle", mine], ["zero-shot"], scenarios=["QD"], name="sweep")
    folder = play_sweep(folder.rename(f"{folder}[1]"), wanted, backends={"my_model": Baseline("always-ask")})
    send(folder, [row(0)])
    experiment, top = client(folder).get_experiment("1"), parent(runs(folder))

    lines = experiment.tags[NOTE].splitlines()
    answer = r"my\_model asks in 100% of zero-shot episodes"
    assert lines[0].startswith(f"{LINKS}: {answer}")
    assert lines[-1].startswith(rf"- [sweep · run\[1\]](#/experiments/1/runs/{top.info.run_id}), finished: {answer}")
    assert experiment.tags[KIND] == RUNS_FIRST and top.data.tags[NOTE].startswith("my_model asks in 100%")


def test_what_somebody_else_wrote_stays(folder):
    send(folder, [row(0)], status="")
    mlflow = client(folder)
    for key, text in ((NOTE, "My own words."), (KIND, "genai_development")):
        mlflow.set_experiment_tag("1", key, text)
    send(folder, [row(0, acc=90.0)])

    tags = mlflow.get_experiment("1").tags
    assert (tags[NOTE], tags[KIND]) == ("My own words.", "genai_development")


def read_view(tag: str) -> tuple[str, dict[str, Any]]:
    """Return name and state of a view's tag."""
    view = json.loads(tag)
    return view["name"], json.loads(zlib.decompress(base64.b64decode(view["state"].removeprefix("deflate;"))))


@pytest.mark.parametrize("view", ["models", "sweeps", "cells"])
def test_mlflows_page_knows_every_key_of_a_view(view):
    """The page ignores a key that it does not know, without a message."""
    scripts = Path(pytest.importorskip("mlflow").__file__).parent / "server/js/build/static/js"
    text = "".join(script for path in scripts.glob("*.js") if "compareRunCharts" in (script := path.read_text()))
    _, state = read_view(views(["hint"])[f"proactive-sweep-{view}"])

    charts = [key for chart in state["compareRunCharts"] for key in (*chart, chart["type"])]
    assert [key for key in (*state, *charts) if not re.search(rf"\b{key}\b", text)] == []


@contextmanager
def mlflow_ui(folder):
    """Yield the address of ``mlflow ui`` on the store of a run folder."""
    address = closed_address()
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--port", address.rpartition(":")[2], "--workers", "1"]
    with (folder / "ui.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: urllib.request.urlopen(f"{address}/health").status == 200, seconds=180)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and its driver are not installed")
def test_the_first_page_of_mlflow_leads_to_the_table_of_models(folder):
    send(folder, [row(0, acc=40.0), row(1, acc=61.25)])
    with mlflow_ui(folder) as address, open_browser() as browser:
        wait = WebDriverWait(browser, 60)
        browser.get(f"{address}/")
        wait.until(lambda page: "no episodes yet" in page.find_element(By.TAG_NAME, "body").text)
        browser.find_element(By.LINK_TEXT, "sweep").click()
        wait.until(lambda page: page.find_elements(By.LINK_TEXT, "sweeps side by side"))
        browser.execute_script("arguments[0].click()", browser.find_element(By.LINK_TEXT, "models"))
        wait.until(lambda page: len(page.window_handles) > 1 or "viewStateShareKey" in page.current_url)
        browser.switch_to.window(browser.window_handles[-1])
        wait.until(lambda page: {"m0", "m1", "61.25"} <= set(page.find_element(By.TAG_NAME, "body").text.split()))
