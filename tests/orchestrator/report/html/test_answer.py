"""The figure with which the page begins: which models, lines and marks it has, by the numbers of the tables."""

import dataclasses

import polars as pl
import pytest
from jinja2 import Environment, PackageLoader

from orchestrator.report.html import answer
from orchestrator.report.html.answer import AnswerFigure, Panel, Point, build_answer
from orchestrator.report.html.text import visible
from orchestrator.report.measures.estimates import estimate
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


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
    figure = build_answer(run_data)
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
    figure = build_answer(with_models(run_data, "guess", "abstain"))
    acc = intervals.averages.filter(model="oracle", condition="zero-shot")["acc"][0]

    assert {model for model, _ in figure.rows} == {"guess", "abstain"}
    assert figure.panels[0].oracle == acc and 0 < figure.panels[0].chance < 50


def test_best_is_marked_only_above_baselines_and_among_several(run_data):
    alone = build_answer(with_models(run_data, "always-ask"))
    assert not any(point.is_best for _, row in alone.rows for point in row if point)

    beaten = build_answer(with_models(run_data, "abstain", "always-ask"))
    assert not any(row[0].is_best for _, row in beaten.rows), "baselines are above both"


def test_unfinished_models_are_pale(run_data):
    planned = pl.when(pl.col("model") == "guess").then(pl.col("planned") + 1).otherwise("planned")
    short = dataclasses.replace(run_data, planned=run_data.planned.with_columns(planned.alias("planned")))
    figure = build_answer(short)

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


def planted(run_data, planned=None, **rights):
    """Return the figure of four episodes a cell, so many of them right (``model_condition``), in one scenario."""
    cells = {name.replace("__", "/QD/").replace("_", "-"): right for name, right in rights.items()}
    rows = [episode(n, cell, correct=n < right) for cell, right in cells.items() for n in range(4)]
    run = replace_episodes(run_data, rows, planned)
    return build_answer(run)


def marked(figure):
    return {model: [point and point.is_best for point in row] for model, row in figure.rows}


def test_models_are_sorted_by_their_first_condition_then_by_name(run_data):
    figure = planted(run_data, b__zero_shot=2, a__zero_shot=2, c__zero_shot=4, z__hint=4, y__hint=1)

    assert [model for model, _ in figure.rows] == ["c", "a", "b", "y", "z"], (
        "without the first condition they come last"
    )
    assert figure.panels == [Panel("zero-shot", None, None), Panel("hint", None, None)]
    assert [row[0] and row[0].value for _, row in figure.rows] == [100.0, 50.0, 50.0, None, None]


def test_best_of_a_column_is_above_the_second_and_every_baseline(run_data):
    assert marked(planted(run_data, a__hint=3, b__hint=2)) == {"a": [True], "b": [False]}
    assert marked(planted(run_data, a__hint=3, b__hint=3)) == {"a": [False], "b": [False]}, "of equals none is best"
    assert marked(planted(run_data, a__hint=3)) == {"a": [False]}
    assert marked(planted(run_data, a__hint=3, b__hint=2, guess__hint=3)) == {"a": [False], "b": [False]}
    assert marked(planted(run_data, a__hint=3, b__hint=2, guess__hint=2)) == {"a": [True], "b": [False]}
    assert marked(planted(run_data, a__hint=3, b__hint=2, oracle__hint=4)) == {"a": [True], "b": [False]}


@pytest.mark.parametrize(
    ("rights", "planned", "marks"),
    [
        ({"a__hint": 1}, None, "."),
        ({"a__hint": 1, "uniform__hint": 1}, None, "; dashed line: choosing blindly."),
        ({"a__hint": 1, "oracle__hint": 4}, None, "; solid line: the oracle."),
        ({"a__hint": 1}, 5, "; pale: unfinished."),
        ({"a__hint": 3, "b__hint": 1, "oracle__hint": 4, "uniform__hint": 1}, None,
         "; dashed line: choosing blindly; solid line: the oracle; bold: highest of its column, and above all baselines."),
    ],
)  # fmt: skip
def test_caption_explains_the_marks_that_are_drawn(run_data, rights, planned, marks):
    figure = planted(run_data, planned, **rights)

    assert figure.caption == f"Accuracy in percent with its 95% interval, mean over 1 scenario{marks}"


def test_only_multiple_choice_is_shown(run_data):
    run = replace_episodes(run_data, [episode(0, "a/QD/hint", protocol="tools")])
    assert build_answer(run) is None
    both = [episode(0, "a/QD/hint"), episode(1, "a/QD/hint-tools", protocol="tools")]
    run = replace_episodes(run_data, [both[0], {**both[1], "condition": "hint"}])
    short = dataclasses.replace(
        run, planned=run.planned.with_columns(planned=pl.when(pl.col("protocol") == "tools").then(9).otherwise(1))
    )
    assert not answer._unfinished(short), "calls are not in the figure"
    assert answer._unfinished(dataclasses.replace(run, planned=run.planned.with_columns(planned=pl.lit(2)))) == {
        ("a", "hint")
    }
