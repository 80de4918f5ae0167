"""Every sweep that ships opens with its question and its cost, and the cost is what the plan says."""

import re
from pathlib import Path

import pytest

from envs.foreign_suggestions import replace_suggestions
from envs.types import Mode
from orchestrator.planning.build_plan import build_plan
from orchestrator.scheduling.forecast.forecast import published_cells
from sweeps.load import load
from sweeps.registry import registry

ROOT = Path(__file__).parents[2]
PAPER = [ROOT / f"sweeps/{name}.toml" for name in ("paper", "paper-oeg")]
FILES = [*PAPER, *sorted(ROOT.glob("sweeps/ablations/*.toml"))]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_head_tells_question_cost_and_command(path):
    head = [line for line in path.read_text().splitlines() if line.startswith("#")]
    sweep = load(path)
    cells = sweep.cells()
    episodes = sum(number for _, number in published_cells(sweep))

    assert head[0].endswith("?")
    assert any(f"proactive-sweep run sweeps/{path.relative_to(ROOT / 'sweeps')}" in line for line in head)
    cost = next(line for line in head if line.startswith("# Cost: "))
    assert re.match(rf"# Cost: {len(cells)} cells, ", cost)
    assert path.stem == "unfiltered" or f"{episodes:,} {'answers' if 'oeg' in path.stem else 'episodes'}" in cost


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_it_plans_over_a_benchmark(path, demo_data):
    sweep = load(path, [f"data={str(demo_data)!r}"])
    plan = build_plan(sweep)

    assert plan.total == sum(len(plan.cell_samples(cell)) for cell in plan.cells) > 0
    assert len({plan.key(n, plan.cell_samples(cell)[0]) for n, cell in enumerate(plan.cells)}) == len(plan.cells)
    for cell in plan.cells:
        if cell.condition.mode is Mode.RANDOM:
            for sample in plan.cell_samples(cell):
                assert replace_suggestions(sample, 0, cell.condition.source or None).options != sample.options


def test_the_paper_has_22_models_and_history_on_ten_of_them():
    sweep = load(ROOT / "sweeps/paper.toml")
    playing = {}
    for cell in sweep.cells():
        playing.setdefault(cell.condition.name, set()).add(cell.model.name)
    ten = {model.name for model in registry().values() if model.in_history}

    assert {name: len(models) for name, models in playing.items()} == {
        "zero-shot": 22, "hint": 22, "random-proactive": 22, "reference": 22, "history": 10, "icl-1": 10, "icl-3": 10,
    }  # fmt: skip
    assert playing["history"] == playing["icl-3"] == ten
