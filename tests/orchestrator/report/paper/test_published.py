"""The published tables reproduce the averages that the paper's text gives."""

import polars as pl
import pytest

from envs import SCENARIOS
from orchestrator.report.paper.published import FACTS, published_figures, published_table


def mean(name: str, without=()) -> float:
    return published_table(name).filter(~pl.col("model").is_in(list(without)))["avg acc"].mean()


def test_model_averages_match_paper_text():
    for condition, name in (("zero-shot", "mcqa"), ("hint", "mcqa_hint"), ("reference", "reference")):
        row = {"condition": condition, "scenario": "avg", "measure": "acc", "models": 21}
        paper_mean = published_table("averages").filter(**row)["value"].item()
        assert mean(name, without=["GPT-5.2"]) == pytest.approx(paper_mean, abs=0.05)
    assert mean("mcqa") == pytest.approx(17.83, abs=0.005)
    assert mean("mcqa_hint") == pytest.approx(26.15, abs=0.005)


@pytest.mark.parametrize("name", FACTS["tables"])
def test_avg_is_mean_of_seven_scenarios(name):
    rows = published_figures().filter(table=name)
    for (_, measure), part in rows.group_by(["paper", "measure"]):
        seven = part.filter(pl.col("scenario") != "avg")
        assert set(seven["scenario"]) == set(SCENARIOS)
        average = part.filter(scenario="avg")["published"].item()  # the paper averages before it rounds
        assert average == pytest.approx(seven["published"].mean(), abs=0.11), measure
