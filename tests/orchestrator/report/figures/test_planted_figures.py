"""Figures of planted episodes: where every bar, point, curve and label is drawn, worked out by hand."""

import dataclasses
from functools import partial

import polars as pl
import pytest
from matplotlib.colors import to_rgb

from orchestrator.report.figures import curves, parts, rows
from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.draw import FIGURES, WIDTHS, RunFigures
from orchestrator.report.figures.numbers import figure_numbers
from orchestrator.report.figures.parts import FigureContext
from orchestrator.report.figures.style import ACTIONS, COLUMN, CONDITIONS, FAINT, GRAY, INK, PAGE, UNFINISHED
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

RIGHT = {"ant": 10, "bee": 5, "cat": 0, "oracle": 10}


@pytest.fixture(scope="module")
def numbers(run_data):
    """Three models and the oracle: zero-shot, hint and the clear image in QD; ``cat`` has no hint and no clear image."""
    cells = [
        (model, condition, right)
        for model, right in RIGHT.items()
        for condition in ("zero-shot", "hint", "reference")
        if model != "cat" or condition == "zero-shot"
    ]
    episodes = [
        episode(n, f"{model}/QD/{condition}", correct=n < right, turns=1 + (n % 2), categories=1)
        for model, condition, right in cells for n in range(10)
    ]  # fmt: skip
    run = replace_episodes(run_data, episodes)
    planned = pl.when(pl.col("model") == "bee").then(20).otherwise("planned").cast(pl.Int64)
    return figure_numbers(dataclasses.replace(run, planned=run.planned.with_columns(planned=planned)))


@pytest.fixture(scope="module")
def context(numbers):
    return FigureContext(numbers)


def drawn(figure_of, context):
    with plot_style.house_style():
        return figure_of(context)


def points(panel):
    """Return (x, y, marker, colour, opacity) of every single point."""
    return [
        (line.get_xdata()[0], round(float(line.get_ydata()[0]), 3), line.get_marker(), line.get_color(), line.get_alpha())
        for line in panel.lines if len(line.get_xdata()) == 1
    ]  # fmt: skip


def labels(panel):
    return [label.get_text() for label in panel.get_yticklabels()]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_models_stand_above_baselines_with_their_progress(context):
    assert context.models(RIGHT) == ["oracle", "cat", "bee", "ant"]
    assert [context.is_gray(name) for name in RIGHT] == [False, False, False, True]
    assert context.label(model="bee") == "bee (50%)" and context.label(model="ant") == "ant"
    assert [context.progress(model=name) for name in ("ant", "bee", "nobody")] == [1.0, 0.5, 0.0]
    assert context.opacity({"model": "bee", "condition": "hint"}) == UNFINISHED
    assert context.opacity({"model": "ant", "scenario": "QD", "acc": 1}) == 1.0
    assert [handle.get_label() for handle in parts.style_notes(context, RIGHT)] == [
        "gray: baselines",
        "pale: unfinished",
    ]
    assert [handle.get_label() for handle in parts.style_notes(context, ["oracle"])] == ["gray: baselines"]
    assert parts.style_notes(context, ["ant"]) == []


def test_reference_figure_has_a_pair_of_points_per_model(context):
    figure = drawn(rows.reference_figure, context)
    scenario, average = figure.axes

    assert (scenario.get_title("left"), average.get_title("left")) == ("QD", "average of 1 scenario")
    assert labels(scenario) == ["oracle", "cat", "bee (50%)", "ant"]
    blue, green = CONDITIONS["zero-shot"][0], CONDITIONS["reference"][0]
    expected = {
        (100.0, 0.16, "o", GRAY, 1.0), (100.0, -0.16, "s", GRAY, 1.0), (0.0, 1.16, "o", blue, 1.0),
        (50.0, 2.16, "o", blue, UNFINISHED), (50.0, 1.84, "s", green, UNFINISHED), (100.0, 3.16, "o", blue, 1.0),
        (100.0, 2.84, "s", green, 1.0),
    }  # fmt: skip
    assert set(points(scenario)) == set(points(average)) == expected
    assert scenario.get_xlim() == (-4, 104) and list(scenario.get_xticks()) == [0, 50, 100]
    assert scenario.get_ylim() == (-0.6, 3.6) and not scenario.texts
    assert [label.get_color() for label in scenario.get_yticklabels()] == ["#666666", INK, INK, INK]
    assert [line.get_ydata() for line in scenario.lines if line.get_color() == "#aaaaaa"] == [[0.5, 0.5]]
    assert legend(figure) == ["zero-shot", "reference (clear image)", "gray: baselines", "pale: unfinished"]
    assert figure.get_supxlabel() == "accuracy, %, with 95% intervals"
    assert len(drawn(rows.reference_figure, FigureContext(context.numbers, COLUMN)).axes) == 1


def test_panels_without_a_scenario_are_hidden(numbers):
    four = pl.concat(
        numbers.intervals.cells.with_columns(scenario=pl.lit(name)) for name in ("CIT", "QD", "ROD", "COCO")
    )
    planted = dataclasses.replace(numbers, intervals=numbers.intervals._replace(cells=four))
    figure = drawn(rows.reference_figure, FigureContext(planted))

    assert [panel.get_visible() for panel in figure.axes] == [True] * 5 + [False] * 3
    assert [panel.get_title("left") for panel in figure.axes[:5]] == [
        "ROD", "QD", "CIT", "COCO", "average of 1 scenario",
    ]  # fmt: skip
    assert figure.get_figheight() == pytest.approx(2 * 0.6 + 0.17 + 2 * 4 * 0.16)


def test_figures_are_as_high_as_their_models(context):
    """Title and labels take 0.6 inches, the legend 0.17 a line, and each model its own line."""
    reference, actions, changes = (
        drawn(draw, context).get_figheight()
        for draw in (rows.reference_figure, rows.actions_figure, partial(rows.changes_figure, everywhere=True))
    )

    assert reference == pytest.approx(0.6 + 0.17 + 4 * 0.16)
    assert actions == pytest.approx(0.6 + 2 * 0.17 + 4 * 0.15)
    assert changes == pytest.approx(0.6 + 0.17 + 3 * (0.06 + 0.075)), "0.075 for each condition"


def test_a_model_without_a_cell_is_not_played(context):
    figure = plot_style.new_figure(3, 2)
    panel = figure.subplots()
    averages = context.averages(["zero-shot", "reference"]).filter(pl.col("model") != "cat")
    rows._draw_pairs(context, panel, ["oracle", "cat", "bee", "ant"], averages, "t")

    (text,) = panel.texts
    assert (text.get_text(), text.get_position(), text.get_color()) == ("not played", (0.03, 1), GRAY)


def test_shares_are_stacked_from_the_left(context):
    figure = drawn(rows.actions_figure, context)
    zero_shot, hint = figure.axes

    assert [panel.get_title("left") for panel in figure.axes] == ["zero-shot", "hint"]
    # five of ten episodes ask once: 5 suggestions and 10 categories, of which 10, 5, 0 are right
    bars = {
        round(bar.get_y() + bar.get_height() / 2): (round(bar.get_x(), 2), round(bar.get_width(), 2), bar.get_hatch())
        for bar in zero_shot.patches if bar.get_hatch() == "\\\\\\\\"
    }  # fmt: skip
    assert (
        bars[3] == (100.0, 0.0, "\\\\\\\\")
        and bars[2] == (66.67, 33.33, "\\\\\\\\")
        and bars[1] == (33.33, 66.67, "\\\\\\\\")
    )
    suggestion = [bar for bar in zero_shot.patches if not bar.get_hatch()]
    assert [(bar.get_x(), round(bar.get_width(), 2)) for bar in suggestion] == [(0.0, 33.33)] * 4
    colors = {bar.get_y(): bar.get_facecolor() for bar in suggestion}
    assert sorted({round(color[3], 2) for color in colors.values()}) == [UNFINISHED, 1.0]
    assert {bar.get_linewidth() for bar in zero_shot.patches} == {0.3}
    assert {bar.get_edgecolor() for bar in zero_shot.patches} == {(1, 1, 1, 0.85)}
    assert [bar.get_height() for bar in suggestion] == pytest.approx([0.74] * 4)
    assert zero_shot.get_xlim() == (0, 100) and list(hint.get_xticks()) == [0, 50, 100]
    names = [*(label for label, _, _ in ACTIONS.values()), "gray: baselines", "pale: unfinished"]
    assert sorted(legend(figure)) == sorted(names)
    assert figure.get_supxlabel() == "share of answers, %, averaged over scenarios\n(line: 95% interval of suggestions)"
    assert len(drawn(rows.actions_figure, FigureContext(context.numbers, COLUMN)).axes) == 1, (
        "a column has zero-shot alone"
    )


def test_changes_lie_around_the_line_of_no_change(context):
    figure = drawn(partial(rows.changes_figure, everywhere=True), context)
    accuracy, suggestions = figure.axes

    assert labels(accuracy) == ["oracle", "bee (50%)", "ant"]
    orange, marker = CONDITIONS["hint"]
    expected = {(0.0, 0.0, marker, GRAY, 1.0), (0.0, 1.0, marker, orange, UNFINISHED), (0.0, 2.0, marker, orange, 1.0)}
    assert set(points(accuracy)) == set(points(suggestions)) == expected
    assert accuracy.get_xlabel() == "accuracy against zero-shot, points\n(paired 95% intervals)"
    assert suggestions.get_xlabel() == "suggestions per episode against zero-shot\n(paired 95% intervals)"
    assert accuracy.get_title("left") == "" and legend(figure) == ["hint", "gray: baselines", "pale: unfinished"]
    assert len(drawn(partial(rows.changes_figure, everywhere=True), FigureContext(context.numbers, COLUMN)).axes) == 1
    assert drawn(partial(rows.changes_figure, everywhere=False), context) is None
    assert drawn(rows.share_changes_figure, context) is None, "unfinished cells have no changes of shares"
    assert [line.get_ydata() for line in accuracy.lines if line.get_color() == "#eeeeee"] == [[0.5, 0.5], [1.5, 1.5]]
    zero = [line for line in accuracy.lines if line.get_color() == INK]
    assert [list(line.get_xdata()) for line in zero] == [[0, 0]]


def test_two_conditions_share_the_height_of_a_model(context):
    figure = plot_style.new_figure(3, 2)
    panel = figure.subplots()
    row = {"model": "ant", "value": 1.0, "low": 0.0, "high": 2.0}
    planted = pl.DataFrame([{**row, "condition": "hint"}, {**row, "condition": "own"}])
    rows._draw_changes(context, panel, ["bee", "ant"], ["hint", "own"], planted, ("value", "low", "high"))

    # 0.72 of a line, in two halves: 0.18 above its middle and 0.18 below
    assert [(x, y, marker) for x, y, marker, _, _ in points(panel)] == [(1.0, 1.18, "o"), (1.0, 0.82, "s")]
    assert rows._condition_look("own", 1) == plot_style.series_look(1)


def test_budget_has_a_panel_per_model_and_ends_past_the_last_gain(context):
    figure = drawn(curves.budget_figure, context)

    assert [panel.get_title("left") for panel in figure.axes] == ["ant", "bee (50%)", "cat"], "baselines have none"
    # half of the right answers take a suggestion, so that a budget of one is enough for all
    ant = figure.axes[0].lines[-1]
    assert list(ant.get_xdata()) == [0, 1] and list(ant.get_ydata()) == [50.0, 100.0]
    assert [panel.lines[-1].get_linestyle() for panel in figure.axes] == ["-", "--", "-"]
    assert {line.get_color() for line in figure.axes[0].lines[:-1]} == {FAINT} and len(figure.axes[0].lines) == 5
    assert figure.axes[0].get_xlim() == (0, 0.5) and figure.axes[0].get_ylim() == (0, 104)
    assert {(panel.get_xlim(), panel.get_ylim()) for panel in figure.axes} == {((0, 0.5), (0, 104))}, (
        "one scale for all"
    )
    band = figure.axes[0].collections[0]
    assert band.get_facecolor()[0][:3] == pytest.approx(to_rgb(CONDITIONS["zero-shot"][0]))
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("suggestions allowed", "accuracy, %")
    assert legend(figure) == ["the model", "95% interval", "all other models"]
    narrow = drawn(curves.budget_figure, FigureContext(context.numbers, COLUMN))
    assert [panel.get_visible() for panel in narrow.axes] == [True] * 3 + [False]
    # a row of panels is 1.25 inches high, in a column 1.0; labels take 0.35 and a line of the legend 0.17
    assert (figure.get_figheight(), narrow.get_figheight()) == pytest.approx((1.25 + 0.52, 2 * 1.0 + 0.52))


def test_curves_end_one_budget_after_all_are_level():
    accuracies = {"a": [1.0, 2.0, 3.0, 3.0, 3.0, 3.0], "b": [0.0] * 6}
    rows = [{"model": name, "budget": n, "acc": acc} for name, part in accuracies.items() for n, acc in enumerate(part)]
    kept = curves._curves(pl.DataFrame(rows[::-1]))

    assert {name: part["budget"].to_list() for name, part in kept.items()} == {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}
    flat = curves._curves(pl.DataFrame(rows[6:]))
    assert flat["b"]["budget"].to_list() == [0, 1, 2], "at least one suggestion and one more"


def test_correlations_are_written_out():
    test = {"rho": -0.456, "p": 0.0456, "models": 6, "reason": None}

    assert curves._correlation(test) == "Spearman's rho −0.46, p = 0.046, 6 models"
    assert curves._correlation({**test, "p": 1e-9}) == "Spearman's rho −0.46, p < 1e-6, 6 models"
    assert curves._correlation({"rho": None, "reason": "why"}) == "no rank correlation: why"


def test_a_model_family_is_its_name_without_the_size():
    names = ("qwen2.5-vl-7b", "model_0.5B", "llava-1.5-13b", "gpt-4.1", "b")

    assert [curves.model_family(name) for name in names] == ["qwen2.5-vl", "model", "llava-1.5", "gpt-4.1", "b"]


def test_legends_take_as_many_lines_as_their_labels_need():
    few = [parts.legend_dot(("#000000", "o"), "a"), parts.legend_dot(("#000000", "o"), "b")]
    long = [parts.legend_dot(("#000000", "o"), "a long name of a model " * 2) for _ in range(3)]

    assert parts.legend_height(PAGE, few) == parts.LEGEND_LINE == 0.17
    assert parts.legend_height(COLUMN, long) == pytest.approx(3 * 0.17), "one to a line"
    assert parts._across(PAGE, few) == 2 and parts._across(COLUMN, long) == 1 == parts._across(PAGE, few[:1])
    # two labels and the space of their marks are 52 points and a few wide
    assert parts._across(0.7, few) == 1 and parts._across(0.95, few) == 2


def test_a_page_has_room_for_some_sixty_models():
    # 9 inches: a title of 0.6, a legend of 2 x 0.17 and lines of 0.12
    assert parts.has_room(67, 1) and not parts.has_room(68, 1)
    assert parts.has_room(31, 2) and not parts.has_room(32, 2)
    assert parts.has_enough_models("abc") and not parts.has_enough_models("abb")


def test_figures_are_as_wide_as_papers_and_grow_with_their_models(context):
    assert [(width, end) for width, end, _ in WIDTHS] == [(6.75, ""), (3.25, "-column")]
    heights = {
        count: parts.new_rows_figure(context, ["m"] * count, 0.16, 1, []).get_figheight() for count in (3, 10, 90)
    }

    assert heights == pytest.approx({3: 0.6 + 0.48, 10: 0.6 + 1.6, 90: 9.0})
    assert context.page and not FigureContext(context.numbers, COLUMN).page


def test_figures_without_baselines_leave_them_out(numbers):
    figures = RunFigures(numbers, baselines=False).figures()

    assert set(figures) == {"reference", "actions", "budget"} <= set(FIGURES), "two models have no figure of changes"
    assert labels(figures["reference"].axes[0]) == ["cat", "bee (50%)", "ant"]


def test_large_figures_are_pictures_on_the_page(numbers, monkeypatch):
    figures = RunFigures(numbers)
    name, image = next(iter(figures.images().items()))
    figure = figures.figures()[name]

    assert image.kind == "svg+xml" and b"prefers-color-scheme" in image.content
    assert (image.width, image.height) == (648, round(96 * figure.get_figheight()))
    monkeypatch.setattr("orchestrator.report.figures.draw.LARGEST_SVG", 10)
    assert figures._image(name, figure).kind == "png"
