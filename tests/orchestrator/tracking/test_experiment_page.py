"""The pages that ``mlflow ui`` shows first lead to the sweep's results; with MLflow's own server, and Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from orchestrator.tracking.mlflow.saved_views import KIND, NOTE, RUNS_FIRST
from tests.orchestrator.mlflow_stores import client, closed_address, parent, row, runs, send, wait_until
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER, open_browser

HOSTILE = "a|b](https://evil.example) <img src=x onerror=alert(1)>"
LINKS = (
    "tables: [models](#/experiments/1/runs?viewStateShareKey=proactive-sweep-models), "
    "[sweeps side by side](#/experiments/1/runs?viewStateShareKey=proactive-sweep-sweeps), "
    "[cells](#/experiments/1/runs?viewStateShareKey=proactive-sweep-cells)"
)


@pytest.fixture
def folder(tmp_path, empty):
    path = tmp_path / "run"
    path.mkdir()
    shutil.copy(empty, path / "mlflow.db")
    return path


def test_the_description_names_the_best_model_and_links_to_tables(folder):
    send(folder, [row(0, acc=40.0), row(1, acc=61.25), row(2, finished=0)])
    experiment = client(folder).get_experiment("1")

    lines = experiment.tags[NOTE].splitlines()
    assert lines[0] == f"best acc 61.2, m1; {LINKS}"
    run = parent(runs(folder)).info.run_id
    assert lines[-1] == f"| [sweep · run](#/experiments/1/runs/{run}) | m1 | 61.2 | 50.6 | finished |"
    assert experiment.tags[KIND] == RUNS_FIRST


def test_what_somebody_else_wrote_stays(folder):
    send(folder, [row(0)], status="")
    mlflow = client(folder)
    for key, text in ((NOTE, "My own words."), (KIND, "genai_development")):
        mlflow.set_experiment_tag("1", key, text)
    send(folder, [row(0, acc=90.0)])

    tags = mlflow.get_experiment("1").tags
    assert (tags[NOTE], tags[KIND]) == ("My own words.", "genai_development")


def test_names_of_models_are_text(folder):
    send(folder, [{**row(0), "model": HOSTILE}])

    note = client(folder).get_experiment("1").tags[NOTE]
    assert note.startswith(r"best acc 50.0, a\|b\]\(https://evil.example\) \<img src=x onerror=alert\(1\)\>; tables: [")
    assert all(line.replace(r"\|", "").count("|") == 6 for line in note.splitlines()[-3:])


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
        wait.until(lambda page: "best acc 61.2, m1" in page.find_element(By.TAG_NAME, "body").text)
        browser.find_element(By.LINK_TEXT, "sweep").click()
        wait.until(lambda page: page.find_elements(By.LINK_TEXT, "sweeps side by side"))
        browser.execute_script("arguments[0].click()", browser.find_element(By.LINK_TEXT, "models"))
        wait.until(lambda page: len(page.window_handles) > 1 or "viewStateShareKey" in page.current_url)
        browser.switch_to.window(browser.window_handles[-1])
        wait.until(lambda page: {"m0", "m1", "61.25"} <= set(page.find_element(By.TAG_NAME, "body").text.split()))
