"""Money has one bound for all workers and attempts of a run folder, whatever is killed."""

from __future__ import annotations

import json
import time

import polars as pl
import pytest

from orchestrator.execution.spending import SPENDING_FILE, read_spending
from orchestrator.storage import reused
from orchestrator.storage.episode_store import episodes
from tests.actors.service import completion, service
from tests.orchestrator.report.runs import play_sweep, replace_part, sweep

SWEEP = """name = "s"
data = "{data}"
models = ["one", "two"]
conditions = ["zero-shot", "hint"]
[cluster]
workers = 2
max_cost = {most}
[tracking]
uri = "none"
[[model]]
name = "one"
source = "m"
in_flight = 4
endpoint = {{base_url = "{url}", key_env = "", prompt_price = 100.0, reply_price = 100.0}}
[[model]]
name = "two"
source = "m"
in_flight = 4
endpoint = {{base_url = "{url}", key_env = "", prompt_price = 100.0, reply_price = 100.0}}
"""
ANSWER_COST = 110 * 100 / 1e6
"""What an answer of the tests' service costs: 100 tokens asked, 10 said."""


@pytest.mark.parametrize("content", [None, b"", b"[1]", b'{"vlm": "x"}', b'{"vlm": NaN}', b'{"vlm": 0.1}'])
def test_cost_of_answers_is_the_least_spent(demo_data, tmp_path, content):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["uniform"], ["hint"], scenarios=["ROD"]))
    part = next((folder / "episodes").glob("*.parquet"))
    replace_part(pl.read_parquet(part).with_columns(cost=pl.lit(0.25), model=pl.lit("vlm")), part)
    if content is not None:
        (folder / SPENDING_FILE).write_bytes(content)
    assert read_spending(folder) == {"vlm": 2.5}

    (folder / SPENDING_FILE).write_text(json.dumps({"vlm": 3.0, "judge": 1.0}))
    assert read_spending(folder) == {"vlm": 3.0, "judge": 1.0}
    (folder / SPENDING_FILE).unlink()
    rows = episodes(folder).collect().select("key", pl.lit(None, pl.String).alias("judge"), "cell").head(4)
    reused.record_reused(folder, rows.with_columns(folder=pl.lit("old"), taken=pl.lit("2026-11-22")))
    assert read_spending(folder) == {"vlm": 1.5}, "what another folder paid is not this one's"


@pytest.mark.slow
@pytest.mark.long
def test_two_models_on_two_workers_and_a_killed_attempt_share_one_bound(cli, demo_data, tmp_path):
    file, out, limit = tmp_path / "s.toml", tmp_path / "run", 60 * ANSWER_COST
    with service(lambda number, body: completion("A"), delay=0.2) as server:
        file.write_text(SWEEP.format(data=demo_data, url=server.url, most=limit))
        process = cli.start("run", file, "--output", out)
        until = time.monotonic() + 120
        while len(server.bodies) < 20 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        first = len(server.bodies)
        assert first >= 20
        done = cli.run("run", file, "--output", out)
    in_flight = 2 * 4
    spent = len(server.bodies) * ANSWER_COST

    assert done.returncode == 1 and f"of max_cost = {limit:g} is spent" in done.stderr
    assert limit * 0.7 < spent <= limit + in_flight * ANSWER_COST, (first, len(server.bodies))
    assert json.loads((out / SPENDING_FILE).read_text()).keys() == {"one", "two"}
    assert episodes(out).collect()["cost"].sum() <= limit
