"""Cells and headings of the decision map."""

import polars as pl

from orchestrator.report.measures.decision_map import DECISION_COLUMNS, EPISODE, SAMPLE, Decisions
from orchestrator.report.tables import decisions
from orchestrator.report.tables.table import TableCell
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def test_knowledge_shows_shares_and_moves():
    row = {
        "known_first": 12.6, "known_ever": 60.4, "needed": 1.26, "known_ever_low": 50.5001, "known_ever_high": 70.4,
    }  # fmt: skip

    assert decisions._knowledge(row) == TableCell("13 / 60; 1.3", 60.4, "51–70")
    assert decisions._knowledge({**row, "needed": None, "known_ever_low": None}) == TableCell("13 / 60; -", 60.4)


def test_regret_shows_shares_and_turns():
    row = {
        "asked_knowing": 12.6, "answered_unknowing": 60.4, "regret": 1.26, "regret_low": 1.0, "regret_high": 2.04,
    }  # fmt: skip

    assert decisions._regret(row) == TableCell("13 / 60; 1.3", 1.26, "1.0–2.0")


def test_tables_say_what_their_figures_are(run_data):
    empty = replace_episodes(run_data, [])

    knowledge, regret = decisions.knowledge_table(empty), decisions.regret_table(empty)
    assert (knowledge.name, knowledge.title) == (
        "decision-map",
        "decision map: percent of samples whose category the model names at the first picture / at any reachable picture (with "
        "its interval); mean moves to the nearest such picture (over samples that have one)",
    )
    assert (regret.name, regret.title) == (
        "decisions",
        "by the model's own decision map: percent of episodes that asked although it knew / answered although it could not know; "
        "mean turns of regret, with its interval (suggestions at known pictures, plus moves still needed)",
    )
    assert {table.columns[0].name for table in (knowledge, regret)} == {"model"}


def test_turns_of_regret_are_late_and_early_ones_and_unknown_early_ones_are_none(run_data, monkeypatch):
    names = ("m/QD/hint", "m", "QD", "hint")
    episodes = [("k", *names, number, True, False, number % 2, None) for number in range(4)]
    planted = Decisions(pl.DataFrame(schema=SAMPLE), pl.DataFrame(episodes, schema=EPISODE, orient="row"))
    monkeypatch.setattr(decisions, "decisions", lambda _: planted)
    run = replace_episodes(run_data, [episode(number, "m/QD/hint", turns=5) for number in range(4)])
    (row,) = decisions._decision_rows(run, DECISION_COLUMNS).rows(named=True)

    assert (row["regret"], row["regret_late"], row["regret_early"]) == (0.5, 0.5, 0.0)
    assert (row["asked_knowing"], row["answered_unknowing"], row["mapped"]) == (100.0, 0.0, 4)
    assert (row["regret_low"], row["regret_high"]) == (row["regret_late_low"], row["regret_late_high"])
    assert row["regret_low"] < 0.5 < row["regret_high"] and row["regret_early_low"] is None
    text = decisions.regret_table(run).rows[0][1]
    assert text == TableCell("100 / 0; 0.5", 0.5, f"{row['regret_low']:.1f}–{row['regret_high']:.1f}")
