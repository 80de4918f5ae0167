"""A run folder of release 0.2 with operating curves is planned and reported as before; without this extra, in one sentence.

``stored/`` holds seven scenarios of four samples, asked of a model that hardly ever asks; its clusters' influences underflow.
"""

import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from envs.errors import UserError
from orchestrator.cli.main import build_app
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.storage.episode_store import options
from orchestrator.storage.run_folder import stored_sweep
from proactive_operating.points import operating_points
from sweeps.load import build


@pytest.fixture
def stored(tmp_path):
    shutil.copytree(Path(__file__).parent / "stored", tmp_path / "stored")
    return tmp_path / "stored"


def test_a_stored_run_is_planned_without_pending_episodes_and_reported_with_intervals(stored):
    sweep = stored_sweep(stored / "run").model_copy(update={"data": str(stored / "data")})
    rows = cells_with_progress(build_plan(sweep), stored / "run")
    assert sum(row["planned"] for row in rows) == sum(row["done"] for row in rows) > 0
    run = read_run(stored / "run", stored / "data")
    tables = {table.name: table for table in report_tables(run)}
    mean = operating_points(run).filter(pl.col("scenario").is_null()).row(0, named=True)

    assert {"operating", "operating-values"} <= tables.keys() and tables["operating"].figure is not None
    assert mean["acc"] == pytest.approx(17.1, abs=0.1) and 0 < mean["ps"] < 1e-6
    assert mean["ps_low"] <= mean["ps"] <= mean["ps_high"] and mean["scenarios"] == 7


def test_without_the_extra_a_stored_run_is_read_and_one_sentence_says_what_to_install(stored, monkeypatch):
    monkeypatch.setattr("envs.installed._find_offers", lambda kind, path: ())  # as if no package were installed
    run = stored / "run"
    for arguments, code in ((["status", run], 0), (["report", run], 0), (["run", run / "sweep.resolved.toml"], 2)):
        done = CliRunner().invoke(build_app(), list(map(str, arguments)))
        *_, sentence = done.output.splitlines()
        assert (done.exit_code, "pip install -e extras/operating" in sentence) == (code, True), done.output
    assert "operating" not in {table.name for table in report_tables(read_run(run, stored / "data"))}
    assert options(run).collect().height > 0, "what is stored stays readable"
    own = {"name": "mine", "every_state": True}
    with pytest.raises(UserError, match="every-state comes with the extra operating"):
        build({"data": str(stored / "data"), "models": ["oracle"], "condition": [own], "conditions": "all"}, "here")
