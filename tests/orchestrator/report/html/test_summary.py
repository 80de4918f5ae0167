"""The page's facts and problems are whole sentences with the figures of the run."""

from envs.types import Ending
from orchestrator.report.html.summary import list_problems
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


def test_problems_are_the_endings_without_an_answer_and_those_cut_short(run_data):
    rows = [episode(number, "m/ROD/hint") for number in range(4)]
    rows += [episode(number, "m/ROD/hint", Ending.OVERFLOW) for number in (4, 5)]
    rows += [episode(0, "m/QD/hint", Ending.OVERFLOW), episode(1, "m/QD/hint", Ending.TRUNCATED)]
    rows += [episode(number, "m/QD/hint", Ending.REFUSED, error="refused <it>") for number in (2, 3)]
    rows += [episode(4, "m/QD/hint", Ending.FAILED, error="failed once")]

    run = replace_episodes(run_data, rows)
    assert [line for line in list_problems(run) if line not in run.notes] == [
        "3 episodes in 2 cells outgrew the model, counted as not right; cells.csv has bounds of acc",
        "1 episode in 1 cell spent a reply's tokens before its first word, counted as not right; cells.csv has bounds of acc",
        "without an answer, left out of all measures: 3 episodes (2 refused, 1 failed)",
        "2 times: refused <it>",
        "1 time: failed once",
    ]
    assert not list_problems(run_data), "a complete run without errors has none"
