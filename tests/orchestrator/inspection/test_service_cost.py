"""The cost of a sweep on services, before a request is sent: bounds that hold for what is played."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from actors.engine.backend import Reply
from actors.engine.baselines import Baseline
from envs import SCENARIOS
from orchestrator.cli.main import app
from orchestrator.inspection import service_cost
from orchestrator.planning.build_plan import build_plan, planned_cells
from orchestrator.storage.episode_store import episodes
from tests.actors.scripted_backend import ScriptedBackend
from tests.orchestrator.report.runs import play_sweep, sweep

ENDPOINT = {"base_url": "http://127.0.0.1:9/v1", "key_env": "", "prompt_price": 2.0, "reply_price": 8.0, "priced": "P"}
ENTRY = {"name": "m", "source": "gpt-4.1", "endpoint": ENDPOINT}


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("gpt-4o", (1024, 1024), 765),  # the guide's own examples
        ("gpt-4.1", (640, 480), 85 + 2 * 170),
        ("gpt-4.1-mini", (1800, 2400), 2353),
        ("o4-mini", (128, 64), 14),
    ],
)
def test_pictures_count_as_the_provider_says(model, size, tokens):
    assert service_cost.picture_tokens(model, *size) == tokens


class Paid(ScriptedBackend):
    """A policy whose replies have tokens as a service counts them."""

    def __init__(self, policy: str) -> None:
        self.policy = Baseline(policy)

    async def reply(self, request):
        reply = await self.policy.reply(request)
        return Reply(reply.text, 500, 3, cost=0.01)


@pytest.mark.parametrize("policy", ["always-ask", "guess"])
def test_played_cost_lies_between_bounds(demo_data, tmp_path, policy):
    spec = sweep(demo_data, ["m"], ["zero-shot", "history", "reference"], model=[ENTRY])
    plan = build_plan(spec)
    pending = {cell["cell"]: cell["planned"] for cell in planned_cells(plan)}
    (estimate,) = service_cost.estimates(plan, pending, demo_data)
    folder = play_sweep(tmp_path / "run", spec, backends={"m": Paid(policy)})
    rows = episodes(folder).collect()

    assert estimate.episodes == rows.height == sum(pending.values())
    assert estimate.least.requests <= rows["turns"].sum() <= estimate.most.requests + 1e-6
    if policy == "always-ask":
        assert rows["turns"].sum() > 0.9 * estimate.most.requests, "who always asks comes to the limit"
    assert estimate.least.reply <= rows["reply_tokens"].sum() <= estimate.most.reply


@pytest.mark.parametrize(("protocol", "turns"), [("oeg", 1), ("oeg-multi", None)])
def test_an_answer_in_words_may_take_all_its_tokens_in_every_turn(demo_data, tmp_path, protocol, turns):
    judge = {"judge": {"model": "rule-judge"}} if turns is None else {}
    spec = sweep(demo_data, ["m"], ["hint"], scenarios=["ROD"], model=[ENTRY], protocol=protocol, **judge)
    plan = build_plan(spec)
    cell, *_ = plan.cells
    (estimate,) = service_cost.estimates(plan, {cell.key: 10}, demo_data)
    limits = [turns or SCENARIOS["ROD"].limit(sample) for sample in plan.cell_samples(cell)]
    mean = sum(limits) / len(limits)
    tokens = cell.sampling.max_tokens + cell.model.endpoint.reserve
    assert (estimate.episodes, len(limits)) == (10, 10)
    assert estimate.least.requests == pytest.approx(10) and estimate.most.requests == pytest.approx(10 * mean)
    assert estimate.least.reply == pytest.approx(10 * service_cost.LETTER_TOKENS)
    assert estimate.most.reply == pytest.approx(10 * mean * tokens)
    assert 0 < min(limits) * estimate.least.prompt <= estimate.most.prompt <= max(limits) * estimate.least.prompt


def test_plan_tells_the_cost_of_each_service_and_of_all(demo_data, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(
        f'name = "s"\ndata = "{demo_data}"\nmodels = ["gpt-4.1", "o4-mini", "uniform"]\nscenarios = ["QD"]\n'
        'conditions = ["zero-shot"]\n[cluster]\nmax_cost = 5\n'
    )
    notes = json.loads(CliRunner().invoke(app, ["plan", str(file), "--json"]).output)["notes"]
    assert [line.split(":")[0] for line in notes] == [
        "gpt-4.1",
        "o4-mini",
        "all services",
        "all services stop at max_cost = 5",
    ]
    assert "10 episodes, 10 to " in notes[0] and "USD" in notes[0]
    low, high = (float(text.replace(",", "")) for text in notes[2].split(": ")[1].split(" to "))
    assert 0 < low < high
