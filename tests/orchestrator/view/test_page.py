"""What the page of ``view`` serves, and what it refuses."""

import io
import json

import numpy as np
import polars as pl
import pytest

from tests.orchestrator.view.hostile_run import HOSTILE
from tests.orchestrator.view.served import Reader, served


@pytest.fixture(scope="module")
def hostile_folder(two_folders):
    return two_folders["run"]


@pytest.fixture(scope="module")
def address(hostile_folder):
    with served({"<b>run</b>": hostile_folder}) as address:
        yield address


@pytest.fixture
def reader(address) -> Reader:
    return Reader(address)


def read_list(reader):
    """Return the state and the columns of the newest version."""
    state = reader.read("state")
    assert reader.ask("GET", f"{reader.path}list?version={state['version']}") == 200
    return state, pl.read_parquet(io.BytesIO(reader.bodies[-1]))


def test_hostile_replies_arrive_as_json_alone(reader):
    state, rows = read_list(reader)
    cells = [n for n, cell in enumerate(state["cells"]) if cell["model"] == "uniform" and cell["scenario"] == "ROD"]
    positions = rows.with_row_index("at").filter(pl.col("cell").is_in(cells))["at"]
    views = [reader.read("episode", version=state["version"], at=at) for at in positions]
    assert set(HOSTILE[:3]) <= {turn["reply"] for view in views for turn in view["turns"]}
    assert reader.headers["Content-Type"].startswith("application/json")
    assert reader.ask("GET", f"{reader.path}found?version={state['version']}&text=%3CSCRIPT") == 200
    assert set(np.frombuffer(reader.bodies[-1], "<u4").tolist()) & set(positions)

    page = reader.look()
    assert "<b>run</b>" not in page and "&lt;b&gt;run&lt;/b&gt;" in page
    assert reader.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", ["list", "episode", "found", "state", ""])
def test_foreign_hosts_origins_and_tokens_are_refused(path, reader):
    foreign = f"{reader.path}{path}"
    assert reader.ask("GET", foreign, {"Host": "evil.example"}) == 403
    assert reader.ask("GET", foreign, {"Origin": "http://evil.example"}) == 403
    assert reader.ask("GET", f"/guess/{path}") == 404
    assert reader.ask("POST", foreign, {"Origin": f"http://{reader.host}"}, "a=b") == 405
    headers = {"Origin": f"http://{reader.host}", "Content-Encoding": "gzip", "Content-Length": "7"}
    assert reader.raw_status(f"POST {foreign}", headers, b"\x1fgarbag") == 405
    policy = reader.headers["Content-Security-Policy"]
    assert "connect-src 'self'" in policy and "form-action 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("query", ["version=-1", "version=x", "version=", "version=9999999999", "version={}&at=%D9%A1"])
def test_numbers_that_are_none_are_refused(query, reader):
    version = reader.read("state")["version"]
    assert reader.ask("GET", f"{reader.path}episode?{query.format(version)}") == 400


def test_a_version_or_an_episode_that_is_not_there_is_not_found(reader):
    state = reader.read("state")
    for query in ("version=999", f"version={state['version']}&at={state['total']}"):
        assert reader.ask("GET", f"{reader.path}episode?{query}") == 404
    assert reader.ask("GET", f"{reader.path}list?version=999") == 404


def test_without_its_data_a_run_has_replies_but_no_pictures(hostile_folder, tmp_path):
    with served({"run": hostile_folder}, tmp_path) as address:
        reader = Reader(address)
        view = reader.read("episode", version=reader.read("state")["version"], at=0)

    assert view["pictures"] == [] and "data folder" in view["why"]
    assert json.dumps(view["turns"])
