"""Cells and headings of the decision map."""

from orchestrator.report.tables import decisions
from orchestrator.report.tables.table import TableCell
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
        "decision map: percent of samples whose category it names at the first picture / at any that play can reach (with the "
        "interval of this); mean moves to the nearest of these (of samples that have one)",
    )
    assert (regret.name, regret.title) == (
        "decisions",
        "percent of episodes that asked although it knew / answered although it could not know; mean turns of regret (moves "
        "asked for too many, and moves that were still needed; with the interval), by the decision map of the same model",
    )
    assert {table.columns[0].name for table in (knowledge, regret)} == {"model"}
