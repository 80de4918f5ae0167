"""The figure with which the page begins: which models, lines and marks it has, by the numbers of the tables."""

import dataclasses

import polars as pl
import pytest
from jinja2 import Environment, PackageLoader

from orchestrator.report.html.answer import AnswerFigure, Panel, Point, build_answer
from orchestrator.report.html.text import visible
from orchestrator.report.measures.estimates import estimate


@pytest.fixture(scope="module")
def intervals(run_data):
    return estimate(run_data)


def with_models(run_data, *names: str):
    """Return the run with these baselines as if they were models."""
    models = [
        model.model_copy(update={"backend": "vllm"}) if model.name in names else model
        for model in run_data.sweep.models
    ]
    return dataclasses.replace(run_data, sweep=run_data.sweep.model_copy(update={"models": tuple(models)}))


def test_points_are_the_averages_of_the_tables(run_data, intervals):
    figure = build_answer(run_data, intervals)
    averages = intervals.averages.filter(protocol="mcqa")
    expected = {
        (row["model"], row["condition"]): row["acc"] for row in averages.drop_nulls("acc").iter_rows(named=True)
    }
    points = {
        (model, panel.condition): point.value
        for model, row in figure.rows
        for panel, point in zip(figure.panels, row, strict=True)
        if point
    }

    assert points == expected
    assert figure.panels[0].condition == "zero-shot" and len({panel.condition for panel in figure.panels}) == 7
    first = [row[0].value for _, row in figure.rows]
    assert first == sorted(first, reverse=True)


def test_models_are_shown_without_baselines_but_with_chance_and_oracle(run_data, intervals):
    figure = build_answer(with_models(run_data, "guess", "abstain"), intervals)
    acc = intervals.averages.filter(model="oracle", condition="zero-shot")["acc"][0]

    assert {model for model, _ in figure.rows} == {"guess", "abstain"}
    assert figure.panels[0].oracle == acc and 0 < figure.panels[0].chance < 50


def test_best_is_marked_only_above_baselines_and_among_several(run_data, intervals):
    alone = build_answer(with_models(run_data, "always-ask"), intervals)
    assert not any(point.is_best for _, row in alone.rows for point in row if point)

    beaten = build_answer(with_models(run_data, "abstain", "always-ask"), intervals)
    assert not any(row[0].is_best for _, row in beaten.rows), "baselines are above both"


def test_unfinished_models_are_pale(run_data, intervals):
    planned = pl.when(pl.col("model") == "guess").then(pl.col("planned") + 1).otherwise("planned")
    short = dataclasses.replace(run_data, planned=run_data.planned.with_columns(planned.alias("planned")))
    figure = build_answer(short, intervals)

    assert {model for model, row in figure.rows if any(point and point.is_unfinished for point in row)} == {"guess"}
    assert "pale: unfinished" in figure.caption


def render_answer(figure: AnswerFigure) -> str:
    environment = Environment(loader=PackageLoader("orchestrator.report.html", "."), autoescape=True)
    environment.filters["visible"] = visible
    return environment.get_template("answer.html.j2").module.answer(figure)


def test_hostile_names_are_escaped():
    figure = AnswerFigure([Panel("<b>c</b>", None, None)], [("<script>m", [Point(1.0, 0.0, 2.0, True, False)])], "x")
    page = render_answer(figure)

    assert "<script>m" not in page and "&lt;script&gt;m" in page and "&lt;b&gt;c" in page
