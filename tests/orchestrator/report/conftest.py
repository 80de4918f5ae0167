"""One demo benchmark and one complete run of the baselines for all tests of the report."""

from __future__ import annotations

import pytest

from orchestrator.report.read_run import read_run
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="session")
def run(demo_data, tmp_path_factory):
    """The six baselines under every condition, complete."""
    return play_sweep(tmp_path_factory.mktemp("report") / "run", sweep(demo_data))


@pytest.fixture(scope="session")
def run_data(run):
    return read_run(run)
