"""A played run for the tests of what commands print."""

from pathlib import Path

import pytest

from tests.orchestrator.report import runs


@pytest.fixture(scope="module")
def folder(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder with two samples of ROD, played by the oracle."""
    wanted = runs.sweep(demo_data, ["oracle"], ["hint"], scenarios=["ROD"], selection={"limit": 2})
    return runs.play_sweep(tmp_path_factory.mktemp("outcomes") / "run", wanted)
