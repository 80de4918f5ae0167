"""Operating curves of a whole run: planted models are described as they were planted, and exact values are those played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf, log
from pathlib import Path
from random import Random

import polars as pl
import pytest

from actors.engine.backend import Backend, Reply, ReplyScore, Request, ScoredReplies
from envs import SCENARIOS
from envs.scenario import suggestions
from orchestrator.report.figures.draw import run_figures
from orchestrator.report.html import write_page
from orchestrator.report.measures.operating_points import exact_and_played, operating_points, operating_splits
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.results import result_tables
from tests.orchestrator.report.runs import play_sweep, sweep

MODEL = {"source": "x", "backend": "transformers", "gpus": 0}
KEENNESS = {"shy": -4.0, "eager": 0.0}


class PlantedModel(Backend):
    """It knows the clear picture and when it sees it; ``keenness`` adds to its log-odds of asking."""

    scores_replies = True

    def __init__(self, keenness: float) -> None:
        self.keenness = keenness

    def chances(self, request: Request) -> dict[str, float]:
        now = request.situation
        sees = SCENARIOS[now.sample.scenario].telling(now.sample, now.state)
        asks = suggestions(now.view.options)
        odds = exp(self.keenness + (-2.0 if sees else 2.0)) if asks else 0.0
        names = {c: 0.9 if sees and c == now.sample.answer else 0.1 for c in now.view.categories}
        total = sum(names.values())
        return {a: odds / (1 + odds) / len(asks) for a in asks} | {c: p / total / (1 + odds) for c, p in names.items()}

    async def reply(self, request: Request) -> Reply:
        chances = self.chances(request)
        if not request.sampling.temperature:
            return Reply(max(chances, key=lambda option: chances[option]))
        return Reply(Random(request.seed).choices(list(chances), list(chances.values()))[0])

    async def option_log_probabilities(self, request: Request, replies: Sequence[str]) -> ScoredReplies:
        chances = self.chances(request)
        best = max(chances, key=lambda option: chances[option])
        logs = [log(chances[r]) if chances.get(r) else -inf for r in replies]
        return ScoredReplies(tuple(map(ReplyScore, logs, [r == best for r in replies])), Reply("", 10, 10))


def play(folder: Path, data: Path, models: Sequence[str], **more: object) -> RunData:
    wanted = sweep(
        data, [*models, "uniform", "oracle"], ["zero-shot", "every-state"], scenarios=["QD", "MVP-N"],
        model=[{**MODEL, "name": name} for name in KEENNESS], **more,
    )  # fmt: skip
    return read_run(play_sweep(folder, wanted, backends={n: PlantedModel(k) for n, k in KEENNESS.items()}))


@pytest.fixture(scope="module")
def greedy_run(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return play(tmp_path_factory.mktemp("operating") / "run", demo_data, list(KEENNESS))


def test_greedy_decoding_plays_the_exact_greedy_values(greedy_run: RunData) -> None:
    rows = exact_and_played(greedy_run)
    assert set(rows["model"]) == {"shy", "eager", "oracle"}
    assert (rows["point"] == "greedy").all()
    assert (rows["exact_acc"] - rows["played_acc"]).abs().max() < 1e-9  # type: ignore[operator]
    assert (rows["exact_ps"] - rows["played_ps"]).abs().max() < 1e-9  # type: ignore[operator]
    assert rows.filter(model="oracle")["exact_acc"].to_list() == [100.0, 100.0]


def test_sampled_play_is_within_the_exact_spread(demo_data: Path, tmp_path: Path) -> None:
    rows = exact_and_played(play(tmp_path / "run", demo_data, list(KEENNESS), sampling={"temperature": 1.0}))
    own = rows.filter(pl.col("model").is_in(list(KEENNESS)))
    assert (own["point"] == "own").all() and own.height == 4
    assert own["z"].abs().max() < 3.5  # type: ignore[operator]


def test_a_shy_model_is_unwilling_and_not_unable(greedy_run: RunData) -> None:
    points = {row["model"]: row for row in operating_points(greedy_run).filter(scenario="QD").iter_rows(named=True)}
    shy, eager = points["shy"], points["eager"]
    assert shy["orders"] == 5 and shy["exact"] and not points["uniform"]["exact"]
    assert shy["acc"] < eager["acc"] - 15
    assert shy["auc_others"] == eager["auc_others"] == 1.0
    assert shy["neutral_others"] == pytest.approx(4.0) and eager["neutral_others"] == pytest.approx(0.0, abs=1e-9)
    assert shy["position_sd"] == pytest.approx(0.0, abs=1e-9)
    assert shy["acc"] <= shy["unbiased"] <= shy["persistent"] <= shy["well_timed"] + 1e-9
    assert shy["unbiased"] == pytest.approx(eager["unbiased"])


def test_all_of_the_difference_is_asking_more(greedy_run: RunData) -> None:
    rows = operating_splits(greedy_run).filter(pl.col("scenario").is_null())
    assert rows["family"].to_list() == ["plain", "persistent"]
    for row in rows.iter_rows(named=True):
        assert (row["before"], row["after"], row["scenarios"]) == ("shy", "eager", 2)
        assert row["more"] + row["better"] == pytest.approx(row["difference"])
        assert row["difference"] > 10
        assert [row[f"better{end}"] for end in ("", "_low", "_high")] == pytest.approx([0, 0, 0], abs=1e-9)


def test_the_report_says_so_and_counts_no_question_as_an_episode(greedy_run: RunData) -> None:
    tables = {table.name: table for table in report_tables(greedy_run)}
    assert {"operating", "operating-splits", "operating-played"} <= tables.keys()
    notes = " ".join(tables["operating"].notes)
    assert "shy (every-state) asks too rarely" in notes
    assert "uniform: the engine gives no probabilities" in notes
    assert "differs from the exact" not in notes
    assert set(greedy_run.episodes["condition"]) == {"zero-shot"}
    assert [table.name for table in result_tables(greedy_run.rows)] == ["zero-shot"]
    assert "operating.svg" in run_figures(greedy_run).files()


def test_without_the_samples_there_are_no_curves(greedy_run: RunData) -> None:
    bare = RunData(
        greedy_run.folder, greedy_run.sweep, greedy_run.planned, greedy_run.episodes, {}, states=greedy_run.states
    )
    assert operating_points(bare).is_empty() and operating_splits(bare).is_empty()


def test_without_probabilities_and_in_one_order_there_is_a_table(demo_data: Path, tmp_path: Path) -> None:
    one_order = {"name": "one-order", "every_state": True, "orders": 0}
    wanted = sweep(
        demo_data, ["shy", "uniform"], ["every-state", "one-order"], scenarios=["QD"], condition=[one_order],
        model=[{**MODEL, "name": "shy"}],
    )  # fmt: skip
    run = read_run(play_sweep(tmp_path / "run", wanted, backends={"shy": PlantedModel(-4.0)}))
    assert write_page(run).read_text().count("operating") > 1, "nothing was played, and the page is complete"
    for names in ({"model": "uniform"}, {"condition": "one-order"}):
        part = replace(run, states=run.states.filter(**names))
        tables = {table.name: table for table in report_tables(part)}
        assert all("-" in [cell.text for cell in row] for row in tables["operating"].rows), names
