"""Operating curves of a whole run: planted models are described as they were planted, and exact values are those played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf, log
from pathlib import Path
from random import Random

import polars as pl
import pytest

from actors.engine.backend import Backend, Reply, Request
from envs import SCENARIOS
from envs.scenario import suggestions
from orchestrator.api import open_run
from orchestrator.report.figures.draw import draw_figures
from orchestrator.report.html.page import write_page
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.paper_tables import result_tables
from proactive_operating.points import exact_and_played, operating_points, operating_values
from proactive_operating.reply_scores import ReplyScore, ScoredReplies
from proactive_operating.results import add_columns
from proactive_operating.splits import operating_splits
from proactive_operating.tables import exact_table, sentences
from tests.orchestrator.report.runs import play_sweep, sweep

MODEL = {"source": "x", "backend": "transformers", "gpus": 0}
KEENNESS = {"shy": -4.0, "eager": 0.0}
BLANK = {"name": "later-blank", "every_state": True, "orders": 0, "picture_later": "blank"}


class PlantedModel(Backend):
    """It knows the clear picture and when it is shown; ``keenness`` adds to its log-odds of asking."""

    scores_replies = True

    def __init__(self, keenness: float) -> None:
        self.keenness = keenness

    def chances(self, request: Request) -> dict[str, float]:
        now = request.situation
        sees = SCENARIOS[now.sample.scenario].telling(now.sample, now.state) and not now.view.image.grey
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

    async def option_log_probabilities(
        self, request: Request, replies: Sequence[str], thought: str = ""
    ) -> ScoredReplies:
        chances = self.chances(request)
        best = max(chances, key=lambda option: chances[option])
        logs = [log(chances[r]) if chances.get(r) else -inf for r in replies]
        return ScoredReplies(tuple(map(ReplyScore, logs, [r == best for r in replies])), Reply("", 10, 10))


def play(folder: Path, data: Path, models: Sequence[str], **more: object) -> RunData:
    wanted = sweep(
        data, [*models, "uniform", "oracle"], ["zero-shot", "every-state", BLANK["name"]], scenarios=["QD", "MVP-N"],
        model=[{**MODEL, "name": name} for name in KEENNESS], condition=[BLANK], **more,
    )  # fmt: skip
    return read_run(play_sweep(folder, wanted, backends={n: PlantedModel(k) for n, k in KEENNESS.items()}))


@pytest.fixture(scope="module")
def greedy_run(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return play(tmp_path_factory.mktemp("operating") / "run", demo_data, list(KEENNESS))


def test_options_of_a_run_stand_as_shown_and_the_residual_is_last(greedy_run: RunData) -> None:
    options = open_run(greedy_run.folder).options
    assert options["position"].min() == -1
    for _, question in options.group_by("key", "turn"):
        positions = question["position"].to_list()
        assert positions == sorted(positions, key=lambda position: (position < 0, position))


def test_greedy_decoding_plays_the_exact_greedy_values(greedy_run: RunData) -> None:
    rows = exact_and_played(greedy_run)
    assert set(rows["model"]) == {"shy", "eager", "oracle"}
    assert (rows["exact_acc"] - rows["played_acc"]).abs().max() < 1e-9  # type: ignore[operator]
    assert (rows["exact_ps"] - rows["played_ps"]).abs().max() < 1e-9  # type: ignore[operator]
    assert rows.filter(model="oracle")["exact_acc"].to_list() == [100.0, 100.0]
    table = exact_table(greedy_run)
    assert [column.name for column in table.columns] == ["model", "MVP-N", "QD"] and not table.notes
    (oracle,) = [cells for model, *cells in table.rows if model.text.startswith("oracle")]
    assert {cell.text.split(" / ")[0] for cell in oracle} == {"100.0"}


def test_a_shy_model_is_unwilling_and_not_unable(greedy_run: RunData) -> None:
    points = {
        row["model"]: row
        for row in operating_points(greedy_run).filter(scenario="QD", condition="every-state").iter_rows(named=True)
    }
    shy, eager = points["shy"], points["eager"]
    assert shy["orders"] == 5 and shy["exact"] and not points["uniform"]["exact"]
    assert shy["acc"] < eager["acc"] - 15
    assert [shy["auc"], eager["auc"]] == pytest.approx([1.0, 1.0])
    assert shy["neutral"] == pytest.approx(4.0) and eager["neutral"] == pytest.approx(0.0, abs=1e-9)
    assert shy["position_sd"] == pytest.approx(0.0, abs=1e-9)
    assert shy["acc"] <= shy["unbiased"] <= shy["well_timed"] + 1e-9
    assert shy["unbiased"] == pytest.approx(eager["unbiased"])


def test_all_of_the_difference_is_willingness(greedy_run: RunData) -> None:
    row = operating_splits(greedy_run).filter(pl.col("scenario").is_null(), picture=False).row(0, named=True)
    assert (row["before"], row["after"], row["scenarios"]) == ("shy", "eager", 2)
    assert row["willingness"] == pytest.approx(row["difference"]) and row["difference"] > 10
    for part in ("timing", "recognition", "abstention"):
        assert [row[f"{part}{end}"] for end in ("", "_low", "_high")] == pytest.approx([0, 0, 0], abs=1e-9)


def test_what_an_asked_for_picture_is_worth_is_what_is_recognized_in_it(greedy_run: RunData) -> None:
    rows = operating_splits(greedy_run).filter(pl.col("scenario").is_null(), picture=True)
    assert rows.select("before", "after").rows() == [(f"{name}, later-blank", name) for name in KEENNESS]
    points = operating_points(greedy_run).filter(pl.col("scenario").is_null())
    for row in rows.iter_rows(named=True):
        own, blank = (
            points.filter(model=row["after"], condition=name)["acc"][0] for name in ("every-state", "later-blank")
        )
        assert row["difference"] == pytest.approx(own - blank) and row["difference"] > 0.5
        assert row["recognition"] > 0 and row["recognition"] > abs(row["abstention"])
    assert rows["difference"][0] < rows["difference"][1], "who hardly asks sees few later pictures"


def test_a_mostly_unreadable_model_is_called_so_first_and_nothing_is_said_of_its_will(greedy_run: RunData) -> None:
    row = operating_points(greedy_run).filter(pl.col("scenario").is_null(), model="shy").row(0, named=True)
    first, *others = sentences({**row, "unreadable": 25.0})
    assert "25% of the probability" in first and not any("asks too" in sentence for sentence in others)


def test_the_value_at_a_price_falls_to_that_of_never_asking(greedy_run: RunData) -> None:
    values = operating_values(greedy_run).filter(pl.col("scenario").is_null(), model="eager", condition="every-state")
    point = operating_points(greedy_run).filter(pl.col("scenario").is_null(), model="eager", condition="every-state")
    assert values["own"][0] == pytest.approx(point["acc"][0])
    assert (values["best"] >= values["own"] - 1e-9).all() and values["best"].is_sorted(descending=True)
    assert values["own"][10] == pytest.approx(point["acc"][0] - 10 * point["ps"][0])
    assert 0 < point["stops_paying_low"][0] <= point["stops_paying"][0]


def test_means_have_intervals_and_endings_add_up(greedy_run: RunData) -> None:
    points = operating_points(greedy_run)
    cells = points.filter(pl.col("scenario").is_not_null(), model="shy", condition="every-state")
    mean = points.filter(pl.col("scenario").is_null(), model="shy", condition="every-state").row(0, named=True)
    assert (mean["scenarios"], cells.height, mean["samples"]) == (2, 2, cells["samples"].sum())
    for name in ("acc", "ps", "unbiased", "auc", "position_sd"):
        assert mean[name] == pytest.approx(cells[name].mean()), name
        assert mean[f"{name}_low"] <= mean[name] + 1e-9 and mean[name] <= mean[f"{name}_high"] + 1e-9
    assert mean["acc_high"] - mean["acc_low"] < (cells["acc_high"] - cells["acc_low"]).max()  # type: ignore[operator]
    total = points["answered"] + points["abstained"] + points["limited"]
    assert (total - 100).abs().max() < 1e-6, "every reply of these models names an option"  # type: ignore[operator]


def test_the_report_says_so_and_counts_no_question_as_an_episode(greedy_run: RunData) -> None:
    tables = {table.name: table for table in report_tables(greedy_run)}
    assert {f"operating{end}" for end in ("", "-values", "-splits", "-pictures", "-played")} <= tables.keys()
    notes = " ".join(tables["operating"].notes)
    assert "shy (every-state) asks too rarely" in notes
    assert "uniform: the engine gives no probabilities" in notes
    assert "differs from the exact" not in notes
    assert set(greedy_run.episodes["condition"]) == {"zero-shot"}
    assert [table.name for table in result_tables(greedy_run.rows)] == ["zero-shot"]
    assert {"operating", "operating-values"} <= draw_figures(greedy_run).keys()


def test_results_hold_the_exact_values_in_the_row_of_the_published_order(greedy_run: RunData) -> None:
    cells = greedy_run.asked.select("cell", "model", "scenario", "condition").unique().sort("cell")
    run = greedy_run
    rows = add_columns(cells, run.folder, run.sweep, run.asked.lazy(), run.samples)
    assert rows.select("cell").equals(cells.select("cell"))
    assert set(rows.drop_nulls("exact_acc")["condition"]) == {"every-state", "later-blank"}
    points = operating_points(run).filter(model="shy", scenario="QD", condition="every-state").row(0, named=True)
    own = rows.filter(model="shy", scenario="QD", condition="every-state").row(0, named=True)
    assert (own["exact_acc"], own["asking_auc"]) == pytest.approx((points["acc"], points["auc"]))
    assert rows.filter(model="uniform", condition="every-state")["asking_auc"].null_count() == 2


class ThinkingModel(PlantedModel):
    """It thinks before every reply."""

    async def reply(self, request: Request) -> Reply:
        return Reply(f"<think>Let me see.</think>\n{(await super().reply(request)).text}")


def test_a_curve_after_thoughts_is_reported_as_not_exact(demo_data: Path, tmp_path: Path) -> None:
    wanted = sweep(
        demo_data, list(KEENNESS), ["zero-shot", "thinking"], scenarios=["QD", "MVP-N"],
        model=[{**MODEL, "name": name} for name in KEENNESS],
        condition=[{"name": "thinking", "every_state": True, "orders": 0, "thoughts": 2}],
    )  # fmt: skip
    run = read_run(play_sweep(tmp_path / "run", wanted, backends={n: ThinkingModel(k) for n, k in KEENNESS.items()}))
    points = operating_points(run)
    assert set(points["thoughts"]) == {2} and not points["exact"].any()
    assert points["auc"].null_count() == points["neutral"].null_count() == 0
    assert points["greedy_acc"].null_count() == points.height
    assert exact_and_played(run).is_empty(), "only exact values are compared with played ones"
    mean = operating_splits(run).filter(pl.col("scenario").is_null()).row(0, named=True)
    assert mean["willingness"] > 10 and mean["recognition"] == pytest.approx(0.0, abs=1e-9)
    notes = [note for table in report_tables(run) if table.name == "operating" for note in table.notes]
    assert sum("shy (thinking) is not exact: its probabilities are means over 2 sampled" in n for n in notes) == 1
    assert any("shy (thinking) asks too rarely" in note for note in notes)
    assert not any("the engine gives no probabilities" in note for note in notes)


def test_without_probabilities_and_in_one_order_there_is_a_table(demo_data: Path, tmp_path: Path) -> None:
    one_order = {"name": "one-order", "every_state": True, "orders": 0}
    wanted = sweep(
        demo_data, ["shy", "uniform"], ["every-state", "one-order"], scenarios=["QD"], condition=[one_order],
        model=[{**MODEL, "name": "shy"}],
    )  # fmt: skip
    run = read_run(play_sweep(tmp_path / "run", wanted, backends={"shy": PlantedModel(-4.0)}))
    assert write_page(run).read_text().count("operating") > 1, "nothing was played, and the page is complete"
    for names in ({"model": "uniform"}, {"condition": "one-order"}):
        part = replace(run, asked=run.asked.filter(**names))
        tables = {table.name: table for table in report_tables(part)}
        assert tables["operating"].rows, names
