"""An ablation and the paper's sweep plan the same episodes for the same cell, so that one run can reuse the other's."""

from pathlib import Path

import pytest

from orchestrator.planning.build_plan import build_plan
from sweeps.load import load

SWEEPS = Path(__file__).parents[3] / "sweeps"
ABLATIONS = sorted(path.stem for path in SWEEPS.glob("ablations/*.toml") if path.stem != "temperature")


@pytest.fixture(scope="module")
def paper(demo_data):
    return cells(SWEEPS / "paper.toml", demo_data)


def cells(file, data_folder):
    """Cell -> keys of its episodes."""
    plan = build_plan(load(file, [f"data={data_folder}"]))
    return {cell.key: set(plan.keys(index)) for index, cell in enumerate(plan.cells)}


@pytest.mark.parametrize("name", ABLATIONS)
def test_ablation_plans_same_episodes_for_shared_cells(name, paper, demo_data):
    ablation = cells(SWEEPS / f"ablations/{name}.toml", demo_data)
    both = ablation.keys() & paper.keys()

    assert len(both) >= 21 or name == "shots", "zero-shot of three models at least"
    assert both and all(paper[cell] <= ablation[cell] for cell in both)
    assert name != "model-size" or both == ablation.keys()
