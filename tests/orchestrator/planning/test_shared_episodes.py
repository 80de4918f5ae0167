"""An ablation and the paper's sweep plan the same episodes where they plan the same cell, so that one run can reuse another's."""

from pathlib import Path

import pytest

from orchestrator.planning.build_plan import build_plan
from sweeps.load import load

SWEEPS = Path(__file__).parents[3] / "sweeps"
ABLATIONS = sorted(path.stem for path in SWEEPS.glob("ablations/*.toml") if path.stem != "temperature")


@pytest.fixture(scope="module")
def paper(demo_data):
    return cells(SWEEPS / "paper.toml", demo_data)


def cells(file, data):
    """Cell -> keys of its episodes."""
    plan = build_plan(load(file, [f"data={data}"]))
    return {cell.key: set(plan.keys(index)) for index, cell in enumerate(plan.cells)}


@pytest.mark.parametrize("name", ABLATIONS)
def test_a_cell_that_the_paper_has_too_is_the_papers(name, paper, demo_data):
    mine = cells(SWEEPS / f"ablations/{name}.toml", demo_data)
    both = mine.keys() & paper.keys()

    assert len(both) >= 21 or name == "shots", "zero-shot of three models at least"
    assert both and all(paper[cell] <= mine[cell] for cell in both)
    assert name != "model-size" or both == mine.keys()
