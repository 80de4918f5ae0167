"""The published tables reproduce the averages that the paper's text gives."""

import polars as pl
import pytest

from envs import SCENARIOS
from orchestrator.report.paper.published import AVERAGE, MEASURES, ROUNDING, TABLES, published_figures, published_table
from sweeps.registry import registry


def mean(name: str, without=()) -> float:
    return published_table(name).filter(~pl.col("model").is_in(list(without)))["avg acc"].mean()


def test_model_averages_match_paper_text():
    for condition, name in (("zero-shot", "mcqa"), ("hint", "mcqa_hint"), ("reference", "reference")):
        paper_mean = (
            published_table("averages")
            .filter(condition=condition, scenario="avg", measure="acc", models=21)["value"]
            .item()
        )
        assert mean(name, without=["GPT-5.2"]) == pytest.approx(paper_mean, abs=0.05)
    assert mean("mcqa") == pytest.approx(17.83, abs=0.005)
    assert mean("mcqa_hint") == pytest.approx(26.15, abs=0.005)


def test_the_ten_models_of_the_history_experiment_have_its_baseline():
    ten = [model.paper for model in registry().values() if model.in_history]
    rows = published_table("mcqa").filter(pl.col("model").is_in(ten))

    assert len(ten) == rows.height == 10
    for scenario, column in (("avg", "avg acc"), ("ROD", "ROD acc"), ("MVP-N", "MVP-N acc")):
        paper_mean = (
            published_table("averages")
            .filter(condition="zero-shot", scenario=scenario, measure="acc", models=10)["value"]
            .item()
        )
        assert rows[column].mean() == pytest.approx(paper_mean, abs=0.06)


@pytest.mark.parametrize("name", TABLES)
def test_avg_is_mean_of_seven_scenarios(name):
    rows = published_figures().filter(table=name)
    for (_, measure), part in rows.group_by(["paper", "measure"]):
        seven = part.filter(pl.col("scenario") != "avg")
        assert set(seven["scenario"]) == set(SCENARIOS)
        # the paper averages before it rounds
        assert part.filter(scenario="avg")["published"].item() == pytest.approx(seven["published"].mean(), abs=0.11), (
            measure
        )


def test_every_table_has_its_protocol_condition_and_samples():
    published = published_figures()

    assert published.columns == [
        "table", "protocol", "condition", "filtered", "paper", "scenario", "measure", "published"
    ]  # fmt: skip
    assert set(published.select("table", "protocol", "condition", "filtered").unique().rows()) == {
        ("mcqa", "mcqa", "zero-shot", True),
        ("mcqa_hint", "mcqa", "hint", True),
        ("reference", "mcqa", "reference", True),
        ("mcqa_unfiltered", "mcqa", "zero-shot", False),
        ("oeg", "oeg", "zero-shot", True),
        ("oeg_hint", "oeg", "hint", True),
        ("oeg_multiturn", "oeg-multi", "zero-shot", True),
    }
    assert published.equals(published.sort("table", "paper", "scenario", "measure", maintain_order=True))
    with pytest.raises(FileNotFoundError):
        published_table("none")


def test_a_figure_is_the_papers_under_our_name():
    row = published_table("mcqa").filter(model="GPT-5.2")
    figures = published_figures().filter(table="mcqa", paper="GPT-5.2")

    assert figures.filter(scenario="ROD", measure="acc")["published"].item() == row["ROD acc"].item()
    assert figures.filter(scenario="MVP-N", measure="ps")["published"].item() == row["MVP-N psr"].item()
    (first, *_), oeg = published_table("oeg")["model"], published_figures().filter(table="oeg")
    answered = published_table("oeg").filter(model=first)
    for column, measure in (("agg", "aggregate"), ("cc", "category"), ("ps", "suggestion")):
        ours = oeg.filter(paper=first, scenario="QD", measure=measure)["published"].item()
        assert ours == answered[f"QD {column}"].item()
    assert MEASURES["tools"] == MEASURES["mcqa"] == {"acc": "acc", "psr": "ps"}
    assert (AVERAGE, ROUNDING) == ("avg", 0.05)
