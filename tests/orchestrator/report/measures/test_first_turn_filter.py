"""The recomputed filter equals the planted one, missing episodes decide nothing, and the ids file plays only kept samples."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from actors.engine.backend import Backend, Reply, Request, Unprocessable
from envs import SCENARIOS
from orchestrator.cli.main import app
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.measures import first_turn_filter as first
from orchestrator.report.read_run import read_run
from orchestrator.storage.run_folder import stored_sweep
from sweeps.load import load
from tests.orchestrator.report.runs import play_sweep, sweep

MODELS = 22
RIGHT = (0, 3, 4, 5, 6, 7, 8, 9, 10, 22)
"""How many models know each of the ten samples of a scenario; the counts straddle every threshold."""
NEEDED = {15: 4, 25: 6, 30: 7, 40: 9}
MODEL = {"source": "x", "backend": "transformers", "gpus": 0}


class PlantedModel(Backend):
    """Model ``number`` names the category of samples that more than ``number`` models know, and abstains otherwise."""

    def __init__(self, number: int, known_by: dict, refuses=frozenset()) -> None:
        self.number, self.known_by, self.refuses = number, known_by, refuses

    async def reply(self, request: Request) -> Reply:
        sample = request.situation.sample
        if sample.id in self.refuses:
            raise Unprocessable("planted")
        abstention = next(o for o in request.situation.view.options if "cannot" in o.lower() or "do not" in o.lower())
        return Reply(sample.answer if self.number < self.known_by[sample.scenario, sample.id] else abstention)

    async def close(self) -> None:
        return None


def names(count: int = MODELS) -> list[dict]:
    return [{"name": f"planted-{number:02d}", **MODEL} for number in range(count)]


@pytest.fixture(scope="module")
def known_by(demo_data):
    plan = build_plan(sweep(demo_data, ["oracle"], ["zero-shot"], selection={"filtered": False}))
    samples = ((name, zip(own, RIGHT, strict=True)) for name, own in plan.samples.items())
    return {(name, sample.id): right for name, counts in samples for sample, right in counts}


@pytest.fixture(scope="module")
def planted_run(demo_data, known_by, tmp_path_factory):
    """Twenty-two models and a policy over all samples."""
    wanted = sweep(demo_data, [*names(), "guess"], ["zero-shot"], selection={"filtered": False})
    backends = {f"planted-{number:02d}": PlantedModel(number, known_by) for number in range(MODELS)}
    return play_sweep(tmp_path_factory.mktemp("planted") / "run", wanted, backends=backends)


def expected_ids(known_by: dict, percent: int) -> dict[str, list[int]]:
    """Return the ids that are kept by construction; nothing counts at ROD's first turn."""
    stay = [(name, i) for (name, i), right in known_by.items() if name == "ROD" or right < NEEDED[percent]]
    return {scenario: sorted(i for name, i in stay if name == scenario) for scenario in SCENARIOS}


@pytest.mark.parametrize("percent", NEEDED)
def test_recomputed_set_is_planted_set(planted_run, known_by, percent):
    models, samples = first.filter_samples(read_run(planted_run), percent)

    assert models == [f"planted-{number:02d}" for number in range(MODELS)], "a policy is no model"
    assert first.kept_ids(samples) == expected_ids(known_by, percent)
    counts = {row["scenario"]: row for row in first.count_samples(samples).iter_rows(named=True)}
    below = [right for right in RIGHT if right < NEEDED[percent]]
    qd, total = counts["QD"], counts["all"]
    assert (qd["samples"], qd["kept"], qd["gone"], qd["undecided"]) == (10, len(below), 10 - len(below), 0)
    assert (qd["published"], qd["shared"]) == (10, len(below)), "the demo's ids are ids that the paper keeps"
    assert total["kept"] == 10 + 6 * len(below) and total["samples"] == 70


def test_ids_file_plays_kept_samples_only(planted_run, known_by, demo_data, tmp_path):
    file = tmp_path / "kept.json"
    done = CliRunner().invoke(app, ["report", str(planted_run), "--filter", "25", "--output", str(file)])

    assert done.exit_code == 0, done.output
    assert "25% of the 22 models" in done.output
    printed = " ".join(done.output.split())
    assert re.search(r"models: \S+, .*, at the first turn of zero-shot", printed)
    assert json.loads(file.read_text()) == expected_ids(known_by, 25)
    sweep_file = tmp_path / "mine.toml"
    sweep_file.write_text(f'data = "{demo_data}"\nmodels = ["oracle", "guess"]\n[selection]\nids_file = "kept.json"\n')
    again = load(sweep_file)
    assert not again.selection.filtered
    plan = build_plan(again)
    assert {name: sorted(s.id for s in samples) for name, samples in plan.samples.items()} == expected_ids(known_by, 25)
    run = play_sweep(tmp_path / "run", again)
    assert stored_sweep(run) == again, "the run folder holds the ids, not the name of a file"
    assert read_run(run).rows["finished"].sum() == 2 * sum(map(len, expected_ids(known_by, 25).values()))


def test_undecided_samples_are_named_and_the_exit_code_is_1(demo_data, known_by, tmp_path):
    wanted = sweep(demo_data, names(2), ["zero-shot"], scenarios=["CIT"], selection={"filtered": False})
    backends = {f"planted-{number:02d}": PlantedModel(number, dict.fromkeys(known_by, 0)) for number in range(2)}
    run = play_sweep(tmp_path / "run", wanted, only=15, backends=backends)

    done = CliRunner().invoke(app, ["report", str(run), "--filter", "25", "--output", str(tmp_path / "ids.json")])
    as_json = json.loads(CliRunner().invoke(app, ["report", str(run), "--filter", "25", "--json"]).output)

    assert done.exit_code == 1
    assert "stay undecided" in done.output and "stay undecided until" in done.output
    undecided = {row["sample_id"] for row in as_json["undecided"]}
    assert len(undecided) == 5 and not undecided & set(json.loads((tmp_path / "ids.json").read_text())["CIT"])
