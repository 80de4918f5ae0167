"""Figures have equal bytes for equal runs, are left out where a table says more, and fit a paper without scaling."""

import dataclasses
import io
import itertools
import re
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib import colors
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.transforms import Bbox
from PIL import Image

from envs import SCENARIOS
from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.curves import model_family
from orchestrator.report.figures.draw import FIGURES, FigureImage, RunFigures, run_figures, write_figures
from orchestrator.report.figures.numbers import figure_numbers
from orchestrator.report.figures.parts import FigureContext
from orchestrator.report.figures.style import ACTIONS, COLUMN, CONDITIONS, GRAY, PAGE, SERIES, SMALLEST, TALLEST
from orchestrator.report.read_run import read_run
from tests.orchestrator.colour_vision import least_distance
from tests.orchestrator.report.runs import play_sweep, sweep, write_published_run

MODELS = [
    "llava-next-mistral-7b",
    "internvl3-1b",
    "internvl3-2b",
    "internvl3-78b",
    "qwen2.5-vl-3b",
    "phi-4-multimodal",
    "gpt-4.1",
]


@pytest.fixture(scope="module")
def numbers(run_data):
    return figure_numbers(run_data)


@pytest.fixture(scope="module")
def baseline_figures(run_data):
    """The figures of six baselines alone."""
    return run_figures(run_data).figures()


@pytest.fixture(scope="module")
def figures_with_models(tmp_path_factory):
    """Seven models of the paper, one of them unfinished, beside two baselines."""
    conditions = ("zero-shot", "hint", "icl-1", "reference", "random-proactive")
    run_data = read_run(
        write_published_run(
            tmp_path_factory.mktemp("beside") / "run", [*MODELS, "oracle", "uniform"], conditions, most=6
        )
    )
    planned = pl.when(pl.col("model") == "gpt-4.1").then(pl.col("planned") + 2).otherwise("planned")
    run_data = dataclasses.replace(run_data, planned=run_data.planned.with_columns(planned.alias("planned")))
    return RunFigures(figure_numbers(run_data))


@pytest.fixture(scope="module")
def page(figures_with_models):
    return figures_with_models.figures()


@pytest.fixture(scope="module")
def column(figures_with_models):
    return figures_with_models.figures(COLUMN)


@pytest.fixture(params=[PAGE, COLUMN])
def sized_figures(request):
    """A width, and all figures of that width."""
    return request.param, request.getfixturevalue("page" if request.param == PAGE else "column")


class Texts(RendererAgg):
    """A renderer that records every text it draws: text, size in points, box in points (from the top left)."""

    def __init__(self, figure) -> None:
        super().__init__(int(72 * figure.get_figwidth()) + 1, int(72 * figure.get_figheight()) + 1, 72)
        self.drawn: list[tuple[str, float, Bbox]] = []
        figure.set_dpi(72)
        figure.draw(self)

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        width, height, below = self.get_text_width_height_descent(s, prop, ismath)
        above = height - below
        box = (x - above, y - width, x + below, y) if angle == 90 else (x, y - above, x + width, y + below)
        self.drawn.append((s, prop.get_size_in_points(), Bbox.from_extents(*box)))
        super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)


def texts(figure):
    """Return the texts that a reader sees."""
    return [text for text, _, _ in Texts(figure).drawn]


def test_every_figure_is_written_in_two_widths(demo_data, tmp_path):
    folder = play_sweep(
        tmp_path / "run", sweep(demo_data, ["oracle", "uniform", "guess"], ["zero-shot"], scenarios=["ROD"])
    )
    files = {path.name: path for path in write_figures(read_run(folder))}
    names = ("actions", "budget")

    page_names = {f"{name}.{ending}" for name in names for ending in ("pdf", "png", "svg")}
    assert set(files) == page_names | {f"{name}-column.{ending}" for name in names for ending in ("pdf", "svg")}
    for name, (ending, width) in itertools.product(names, (("", PAGE), ("-column", COLUMN))):
        svg = ET.parse(files[f"{name}{ending}.svg"]).getroot()
        box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", files[f"{name}{ending}.pdf"].read_bytes())
        assert float(svg.get("width").removesuffix("pt")) == float(box[1]) == 72 * width
        assert float(box[2]) <= 72 * TALLEST
    for name in names:
        with Image.open(files[f"{name}.png"]) as picture:
            assert picture.width == PAGE * plot_style.DPI and np.asarray(picture.convert("L")).std() > 5


def test_text_is_vector_and_its_font_is_in_the_file(baseline_figures):
    assert set(baseline_figures) == {"reference", "actions", "conditions", "share-changes", "examples", "budget"}
    for figure in baseline_figures.values():
        pdf = plot_style.render(figure, "pdf")
        fonts = re.findall(rb"/Type /FontDescriptor.*?endobj", pdf, re.DOTALL)
        assert fonts and all(b"/FontFile2" in font for font in fonts)
        assert b"/Type3" not in pdf and b"/Subtype /Image" not in pdf
        assert b"<image" not in plot_style.render(figure, "svg")


# -- at the size of a paper --------------------------------------------------------------------------------------------
def test_no_text_is_small_or_outside(sized_figures):
    width, figures = sized_figures
    assert set(figures) == {"reference", "actions", "conditions", "share-changes", "examples", "capacity", "budget"}
    for name, figure in figures.items():
        assert figure.get_figwidth() == width and figure.get_figheight() <= TALLEST
        for text, size, box in Texts(figure).drawn:
            assert size >= SMALLEST, (name, text)
            assert box.x0 >= 0 and box.x1 <= 72 * width, (name, text)
            assert box.y0 >= 0 and box.y1 <= 72 * figure.get_figheight(), (name, text)


def test_texts_do_not_overlap(sized_figures):
    for name, figure in sized_figures[1].items():
        for (first, _, box), (second, _, at) in itertools.combinations(Texts(figure).drawn, 2):
            assert first == second or not box.padded(-1).overlaps(at.padded(-1)), (name, first, second)


def test_every_point_has_its_interval(figures_with_models, sized_figures):
    rows = figures_with_models.numbers.intervals.averages.filter(protocol="mcqa", condition="zero-shot").to_dicts()
    _, figures = sized_figures
    panel = next(axes for axes in figures["reference"].axes if axes.get_title("left") == "average")
    assert lines(panel) >= {(row["acc_low"], row["acc_high"]) for row in rows}
    changes = figures_with_models.numbers.changes.filter(condition="hint").to_dicts()
    assert lines(figures["conditions"].axes[0]) >= {(row["difference_low"], row["difference_high"]) for row in changes}
    assert lines(figures["actions"].axes[0]) >= {
        (row["share_suggestion_low"], row["share_suggestion_high"]) for row in rows
    }


def lines(panel):
    """Return the x coordinates of both ends of each two-point line."""
    return {tuple(line.get_xdata()) for line in panel.lines if len(line.get_xdata()) == 2}


def test_the_budget_band_holds_its_curve(page):
    for panel in page["budget"].axes[: len(MODELS)]:
        low, high = panel.collections[0].get_paths()[0].get_extents().intervaly
        curve = panel.lines[-1].get_ydata()
        assert low <= min(curve) and max(curve) <= high and low < high


def test_axes_are_not_symlog_and_minus_signs_are_typographic(sized_figures):
    for figure in sized_figures[1].values():
        for axes in figure.axes:
            assert {axes.get_xscale(), axes.get_yscale()} <= {"linear", "log"}
            logarithmic = axes.get_xscale() == "log"
            assert not logarithmic or "log scale" in axes.get_xlabel()
        assert not [text for text in texts(figure) if re.search(r"(?<![\w.])-\d", text)]


def test_baselines_are_grey_or_left_out(figures_with_models, page):
    labels = {text.get_text(): text.get_color() for text in page["reference"].axes[0].get_yticklabels()}

    assert labels["oracle"] != labels["internvl3-2b"]
    marks = {
        line.get_color() for line in page["conditions"].axes[0].lines if line.get_marker() == CONDITIONS["hint"][1]
    }
    assert marks == {GRAY, CONDITIONS["hint"][0]}
    assert all("gray: baselines" in texts(page[name]) for name in ("reference", "actions", "conditions", "examples"))
    without = {
        name: maker(FigureContext(figures_with_models.numbers, baselines=False)) for name, maker in FIGURES.items()
    }
    assert {name for name, figure in without.items() if figure is None} == {"operating"}
    assert not {"oracle", "gray: baselines"} & {text for figure in without.values() if figure for text in texts(figure)}


def test_baselines_alone_are_not_grey(baseline_figures):
    assert not any("gray: baselines" in texts(figure) for figure in baseline_figures.values())


def test_fewer_than_three_models_have_no_figures(demo_data, tmp_path):
    assert (
        run_figures(
            read_run(play_sweep(tmp_path / "run", sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"])))
        ).figures()
        == {}
    )


def test_the_same_run_gives_the_same_bytes(numbers, baseline_figures):
    with plot_style.house_style():
        again = FIGURES["actions"](FigureContext(numbers))
        plot_style.lay_out(again)

    for form in ("svg", "pdf", "png"):
        assert plot_style.render(baseline_figures["actions"], form) == plot_style.render(again, form), form
    assert b"<dc:date>" not in plot_style.render(again, "svg") and b"CreationDate" not in plot_style.render(
        again, "pdf"
    )


def test_bars_add_up_to_hundred_percent(baseline_figures):
    panel = baseline_figures["actions"].axes[0]
    rows: dict[float, float] = {}
    for bar in panel.patches:
        rows[bar.get_y()] = rows.get(bar.get_y(), 0) + bar.get_width()

    assert len(rows) == 6
    assert list(rows.values()) == pytest.approx([100.0] * 6)


def test_nothing_outside_a_figure_changes_its_style():
    before = dict(matplotlib.rcParams)
    with plot_style.house_style():
        assert matplotlib.rcParams["svg.hashsalt"] == "proactive-sweep"

    assert dict(matplotlib.rcParams) == before


def test_colours_differ_in_grey_or_by_hatch_and_marker():
    grey = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in (colors.to_rgb(c) for _, c, _ in ACTIONS.values())]
    hatches = [hatch for _, _, hatch in ACTIONS.values()]

    assert len(set(hatches)) == len(hatches)
    assert all(abs(a - b) > 0.04 for n, a in enumerate(grey) for b in grey[:n])
    markers = [marker for name, (_, marker) in CONDITIONS.items() if name not in ("zero-shot", "reference")]
    assert len(set(markers)) == len(markers)
    assert len({plot_style.series_look(number) for number in range(30)}) == 30


@pytest.mark.parametrize(
    "palette",
    [
        [colour for _, colour, _ in ACTIONS.values()],
        [*{CONDITIONS[name][0] for name in ("hint", "history", "random-proactive")}, GRAY],
        [*{CONDITIONS[name][0] for name in ("icl-1", "icl-3")}, GRAY],
        [*{CONDITIONS[name][0] for name in ("zero-shot", "reference")}, GRAY],
        SERIES,
    ],
)
def test_colours_of_one_figure_stay_apart_for_colour_blind_readers(palette):
    assert least_distance(palette) >= 10


def test_unfinished_models_are_marked_and_pale(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["oracle", "uniform", "guess"]), only=900)
    figures = run_figures(read_run(folder)).figures()

    assert "not played" in texts(figures["reference"])
    for name in ("reference", "actions", "conditions", "budget"):
        assert any(re.search(r"\(\d+%\)$", text) for text in texts(figures[name])), name
    assert all("pale: unfinished" in texts(figures[name]) for name in ("reference", "actions", "conditions"))


def test_run_of_one_condition_has_two_figures(run_data):
    one_condition = dataclasses.replace(
        run_data,
        planned=run_data.planned.filter(condition="zero-shot"),
        episodes=run_data.episodes.filter(condition="zero-shot"),
    )
    nothing = dataclasses.replace(run_data, planned=run_data.planned.clear(), episodes=run_data.episodes.clear())

    assert set(run_figures(one_condition).figures()) == {"actions", "budget"}
    assert run_figures(nothing).figures() == {}


def test_capacity_shows_sized_models_by_family(page):
    labels = texts(page["capacity"])

    assert {"internvl3", "qwen2.5-vl"} <= set(labels)
    assert "gpt-4.1" not in labels
    assert any("Spearman's rho" in text and "6 models" in text for text in labels)
    assert model_family("llava-ov-0.5b") == "llava-ov"
    assert model_family("7b") == "7b"


def test_capacity_has_two_panels_side_by_side_or_in_a_column_one_above_the_other(page, column):
    wide, narrow = page["capacity"], column["capacity"]

    assert (
        len({axes.get_position().y0 for axes in wide.axes})
        == 1
        == len({axes.get_position().x0 for axes in narrow.axes})
    )
    legends = [figure.get_figheight() - 2.2 * rows for figure, rows in ((wide, 1), (narrow, 2))]
    assert [round(height / 0.17, 6) for height in legends] == [1.0, 2.0], "lines of the legend"


def test_capacity_has_a_grid_of_lines_at_equal_heights_and_whole_sentences_above(figures_with_models, page):
    tests = {row["measure"]: row for row in figures_with_models.numbers.capacity.to_dicts()}
    measures = {"accuracy, %": "acc", "suggestions per episode": "ps"}

    assert {panel.get_ylabel() for panel in page["capacity"].axes} == measures.keys()
    for panel in page["capacity"].axes:
        assert all(line.get_visible() for line in panel.get_ygridlines()) and panel.get_ylim()[0] == 0
        test = tests[measures[panel.get_ylabel()]]
        sign = "+" if test["rho"] > 0 else "\u2212"
        p = "< 0.001" if test["p"] < 0.001 else f"= {test['p']:.3f}"
        assert panel.get_title("left") == f"Spearman's rho {sign}{abs(test['rho']):.2f}, p {p}, 6 models"


def test_conditions_lie_one_under_another_around_the_line_of_their_model(page):
    names = ["hint", "random-proactive"]
    panel = page["conditions"].axes[0]
    levels = range(len(panel.get_yticks()))
    assert [label.get_text() for label in page["conditions"].legends[0].get_texts()][: len(names)] == names
    for number, name in enumerate(names):
        mark = CONDITIONS[name][1]
        heights = sorted(line.get_ydata()[0] for line in panel.lines if line.get_marker() == mark)
        expected = [level + 0.36 - 0.72 * (number + 0.5) / len(names) for level in levels]
        assert heights == pytest.approx(expected), name


def test_shares_fill_their_axis_and_a_scenario_has_a_panel(page):
    assert {axes.get_xlim() for axes in page["actions"].axes} == {(0.0, 100.0)}
    shown = [axes for axes in page["reference"].axes if axes.get_visible()]
    assert len(page["reference"].axes) == len(shown) == 8
    assert [axes.get_title("left") for axes in shown] == [*SCENARIOS, "average"]
    assert len({axes.get_position().x0 for axes in shown}) == 4, "four beside one another"


def test_an_image_of_the_page_is_a_data_address():
    assert FigureImage("png", b"\x00\xff>", 3, 4).uri == "data:image/png;base64,AP8+"


def test_progress_is_the_finished_share_of_what_was_planned(figures_with_models):
    context = FigureContext(figures_with_models.numbers)
    rows = figures_with_models.numbers.cells.filter(model="gpt-4.1", protocol="mcqa")
    share = rows["finished"].sum() / rows["planned"].sum()

    assert 0 < context.progress(model="gpt-4.1") == share < 1 == context.progress(model="internvl3-1b")
    assert context.progress(model="nobody") == 0
    assert context.label(model="gpt-4.1") == f"gpt-4.1 ({int(100 * share)}%)"
    assert context.label(model="internvl3-1b") == "internvl3-1b"


def test_axes_and_marks_are_named_in_words(sized_figures):
    _, figures = sized_figures
    named = {
        "capacity": {"suggestions per episode", "accuracy, %", "parameters, billions (log scale)"},
        "budget": {"suggestions allowed", "accuracy, %", "the model", "95% interval", "all other models"},
        "reference": {"accuracy, %, with 95% intervals", "zero-shot", "reference (clear image)"},
    }

    missing = {name: words - set(texts(figures[name])) for name, words in named.items()}
    assert not any(missing.values()), missing
    assert {"1", "10"} <= set(texts(figures["capacity"])), "sizes are plain numbers, on a logarithmic axis"


def test_hostile_names_are_text(run_data):
    name = "$\\frac{1}{0}$ <b>&amp; \u202e\x00\n" + "x" * 300
    renamed = pl.col("model").replace({"uniform": name})
    hostile = dataclasses.replace(
        run_data, planned=run_data.planned.with_columns(renamed), episodes=run_data.episodes.with_columns(renamed)
    )
    figures = run_figures(hostile).figures()

    for figure in (figures["actions"], figures["budget"]):
        assert any(text.startswith("$\\frac{1}{0}$ <b>&amp;") and len(text) < 40 for text in texts(figure))
        ET.parse(io.BytesIO(plot_style.render(figure, "svg")))


def test_many_models_leave_room_for_their_labels(figures_with_models):
    numbers = figures_with_models.numbers
    names = pl.DataFrame({"model": [f"model-{number}" for number in range(60)]})

    def copy(frame):
        rows = frame.filter(model="internvl3-1b")
        return rows.drop("model").join(names, how="cross").select(frame.columns)

    cells, averages = copy(numbers.intervals.cells), copy(numbers.intervals.averages)
    intervals = numbers.intervals._replace(cells=cells, averages=averages)
    planted = dataclasses.replace(numbers, cells=copy(numbers.cells), intervals=intervals)
    with plot_style.house_style():
        figure = FIGURES["reference"](FigureContext(planted, PAGE))

    assert len(figure.axes) == 1 and figure.get_figheight() / 60 > SMALLEST / 72


def test_share_changes_have_a_panel_per_share_and_a_column_only_the_first(figures_with_models, page, column):
    rows = figures_with_models.numbers.share_changes
    wide, narrow = page["share-changes"], column["share-changes"]

    assert [axes.get_title("left") for axes in wide.axes] == ["suggestions", "abstentions", "categories"]
    assert [axes.get_title("left") for axes in narrow.axes] == ["suggestions"]
    assert wide.get_supxlabel() == "share of answers against zero-shot, points\n(paired 95% intervals)"
    assert [text.get_text() for text in wide.legends[0].get_texts()][:2] == ["hint", "random-proactive"]
    for axes, share in zip(wide.axes, ("share_suggestion", "share_abstention", "share_category"), strict=True):
        expected = rows.filter(share=share).select("points_low", "points_high").rows()
        assert lines(axes) >= set(expected) and len(expected) == 2 * len(axes.get_yticks())


def test_capacity_joins_the_models_of_a_family_and_draws_every_interval(figures_with_models, page):
    accuracy = next(axes for axes in page["capacity"].axes if axes.get_ylabel() == "accuracy, %")
    rows = figures_with_models.numbers.intervals.averages.filter(protocol="mcqa", condition="zero-shot")
    values = {row["model"]: (row["acc"], row["acc_low"], row["acc_high"]) for row in rows.iter_rows(named=True)}
    sizes = {"internvl3-1b": 1.0, "internvl3-2b": 2.0, "internvl3-78b": 78.0}
    families = [list(line.get_xdata()) for line in accuracy.lines if len(line.get_xdata()) == 3]
    points = {(line.get_xdata()[0], line.get_ydata()[0]) for line in accuracy.lines if len(line.get_xdata()) == 1}
    intervals = {(line.get_xdata()[0], *line.get_ydata()) for line in accuracy.lines if len(line.get_xdata()) == 2}

    assert families == [list(sizes.values())]
    for model, size in sizes.items():
        value, low, high = values[model]
        assert (size, value) in points and (size, low, high) in intervals
    assert accuracy.get_xlabel() == "parameters, billions (log scale)"
    assert accuracy.xaxis.get_major_formatter()(10.0, 0) == "10"
