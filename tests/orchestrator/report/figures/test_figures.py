"""Figures are the same bytes for the same run, are left out where a table says more, and go into a paper unscaled."""

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

from orchestrator.report.figures import style as plot_style
from orchestrator.report.figures.curves import model_family
from orchestrator.report.figures.draw import FIGURES, RunFigures, run_figures, write_figures
from orchestrator.report.figures.numbers import figure_numbers
from orchestrator.report.figures.parts import FigureContext
from orchestrator.report.figures.style import ACTIONS, COLUMN, CONDITIONS, GRAY, PAGE, SERIES, SMALLEST, TALLEST
from orchestrator.report.read_run import read_run
from tests.orchestrator.colour_vision import closest
from tests.orchestrator.report.runs import known, played, sweep

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
def drawn(run_data):
    """The figures of six baselines alone."""
    return run_figures(run_data).figures()


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """Seven models of the paper, one of them unfinished, beside two baselines."""
    conditions = ("zero-shot", "hint", "icl-1", "reference", "random-proactive")
    run_data = read_run(
        known(tmp_path_factory.mktemp("beside") / "run", [*MODELS, "oracle", "uniform"], conditions, most=6)
    )
    planned = pl.when(pl.col("model") == "gpt-4.1").then(pl.col("planned") + 2).otherwise("planned")
    run_data = dataclasses.replace(run_data, planned=run_data.planned.with_columns(planned.alias("planned")))
    return RunFigures(figure_numbers(run_data))


@pytest.fixture(scope="module")
def page(beside):
    return beside.figures()


@pytest.fixture(scope="module")
def column(beside):
    return beside.figures(COLUMN)


@pytest.fixture(params=[PAGE, COLUMN])
def sized(request):
    """A width, and every figure of that width."""
    return request.param, request.getfixturevalue("page" if request.param == PAGE else "column")


class Texts(RendererAgg):
    """Draws a figure and keeps every text that it draws: text, size in points, box in points (from the top left)."""

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
    """The texts that a reader sees."""
    return [text for text, _, _ in Texts(figure).drawn]


def test_every_figure_is_written_in_two_widths(demo_data, tmp_path):
    folder = played(
        tmp_path / "run", sweep(demo_data, ["oracle", "uniform", "guess"], ["zero-shot"], scenarios=["ROD"])
    )
    files = {path.name: path for path in write_figures(read_run(folder))}
    names = ("actions", "budget")

    page = {f"{name}.{ending}" for name in names for ending in ("pdf", "png", "svg")}
    assert set(files) == page | {f"{name}-column.{ending}" for name in names for ending in ("pdf", "svg")}
    for name, (ending, width) in itertools.product(names, (("", PAGE), ("-column", COLUMN))):
        svg = ET.parse(files[f"{name}{ending}.svg"]).getroot()
        box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", files[f"{name}{ending}.pdf"].read_bytes())
        assert float(svg.get("width").removesuffix("pt")) == float(box[1]) == 72 * width
        assert float(box[2]) <= 72 * TALLEST
    for name in names:
        with Image.open(files[f"{name}.png"]) as picture:
            assert picture.width == PAGE * plot_style.DPI and np.asarray(picture.convert("L")).std() > 5


def test_text_is_vector_and_its_font_is_in_the_file(drawn):
    assert set(drawn) == {"reference", "actions", "conditions", "share-changes", "examples", "budget"}
    for figure in drawn.values():
        pdf = plot_style.render(figure, "pdf")
        fonts = re.findall(rb"/Type /FontDescriptor.*?endobj", pdf, re.DOTALL)
        assert fonts and all(b"/FontFile2" in font for font in fonts)
        assert b"/Type3" not in pdf and b"/Subtype /Image" not in pdf
        assert b"<image" not in plot_style.render(figure, "svg")


# -- at the size of a paper --------------------------------------------------------------------------------------------
def test_no_text_is_small_or_outside(sized):
    width, made = sized
    assert set(made) == {"reference", "actions", "conditions", "share-changes", "examples", "capacity", "budget"}
    for name, figure in made.items():
        assert figure.get_figwidth() == width and figure.get_figheight() <= TALLEST
        for text, size, box in Texts(figure).drawn:
            assert size >= SMALLEST, (name, text)
            assert box.x0 >= 0 and box.x1 <= 72 * width, (name, text)
            assert box.y0 >= 0 and box.y1 <= 72 * figure.get_figheight(), (name, text)


def test_no_text_lies_on_another(sized):
    for name, figure in sized[1].items():
        for (one, _, box), (other, _, at) in itertools.combinations(Texts(figure).drawn, 2):
            assert one == other or not box.padded(-1).overlaps(at.padded(-1)), (name, one, other)


def test_every_point_has_its_interval(beside, sized):
    rows = beside.numbers.intervals.averages.filter(protocol="mcqa", condition="zero-shot").to_dicts()
    _, made = sized
    panel = next(axes for axes in made["reference"].axes if axes.get_title("left") == "average")
    assert lines(panel) >= {(row["acc_low"], row["acc_high"]) for row in rows}
    changes = beside.numbers.changes.filter(condition="hint").to_dicts()
    assert lines(made["conditions"].axes[0]) >= {(row["difference_low"], row["difference_high"]) for row in changes}
    assert lines(made["actions"].axes[0]) >= {
        (row["share_suggestion_low"], row["share_suggestion_high"]) for row in rows
    }


def lines(panel):
    """Ends along x of all lines between two points."""
    return {tuple(line.get_xdata()) for line in panel.lines if len(line.get_xdata()) == 2}


def test_the_budget_band_holds_its_curve(page):
    for panel in page["budget"].axes[: len(MODELS)]:
        low, high = panel.collections[0].get_paths()[0].get_extents().intervaly
        curve = panel.lines[-1].get_ydata()
        assert low <= min(curve) and max(curve) <= high and low < high


def test_no_axis_is_symlog_and_a_minus_is_a_minus(sized):
    for figure in sized[1].values():
        for axes in figure.axes:
            assert {axes.get_xscale(), axes.get_yscale()} <= {"linear", "log"}
            logarithmic = axes.get_xscale() == "log"
            assert not logarithmic or "log scale" in axes.get_xlabel()
        assert not [text for text in texts(figure) if re.search(r"(?<![\w.])-\d", text)]


def test_baselines_are_grey_or_left_out(beside, page):
    labels = {text.get_text(): text.get_color() for text in page["reference"].axes[0].get_yticklabels()}

    assert labels["oracle"] != labels["internvl3-2b"]
    marks = {
        line.get_color() for line in page["conditions"].axes[0].lines if line.get_marker() == CONDITIONS["hint"][1]
    }
    assert marks == {GRAY, CONDITIONS["hint"][0]}
    assert all("gray: baselines" in texts(page[name]) for name in ("reference", "actions", "conditions", "examples"))
    for maker in FIGURES.values():
        assert not {"oracle", "gray: baselines"} & set(texts(maker(FigureContext(beside.numbers, baselines=False))))


def test_where_only_baselines_played_none_is_grey(drawn):
    assert not any("gray: baselines" in texts(figure) for figure in drawn.values())


def test_fewer_than_three_models_are_a_table(demo_data, tmp_path):
    assert (
        run_figures(
            read_run(played(tmp_path / "run", sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"])))
        ).figures()
        == {}
    )


def test_the_same_run_gives_the_same_bytes(numbers, drawn):
    with plot_style.house_style():
        again = FIGURES["actions"](FigureContext(numbers))
        plot_style.lay_out(again)

    for form in ("svg", "pdf", "png"):
        assert plot_style.render(drawn["actions"], form) == plot_style.render(again, form), form
    assert b"<dc:date>" not in plot_style.render(again, "svg") and b"CreationDate" not in plot_style.render(
        again, "pdf"
    )


def test_bars_are_the_shares_and_fill_the_hundred(drawn):
    panel = drawn["actions"].axes[0]
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
    assert closest(palette) >= 10


def test_unfinished_is_said_and_pale(demo_data, tmp_path):
    folder = played(tmp_path / "run", sweep(demo_data, ["oracle", "uniform", "guess"]), only=900)
    made = run_figures(read_run(folder)).figures()

    assert "not played" in texts(made["reference"])
    for name in ("reference", "actions", "conditions", "budget"):
        assert any(re.search(r"\(\d+%\)$", text) for text in texts(made[name])), name
    assert all("pale: unfinished" in texts(made[name]) for name in ("reference", "actions", "conditions"))


def test_a_run_of_one_condition_has_only_the_figures_it_can_have(run_data):
    one = dataclasses.replace(
        run_data,
        planned=run_data.planned.filter(condition="zero-shot"),
        episodes=run_data.episodes.filter(condition="zero-shot"),
    )
    nothing = dataclasses.replace(run_data, planned=run_data.planned.clear(), episodes=run_data.episodes.clear())

    assert set(run_figures(one).figures()) == {"actions", "budget"}
    assert run_figures(nothing).figures() == {}


def test_capacity_shows_sized_models_by_family(page):
    found = texts(page["capacity"])

    assert {"internvl3", "qwen2.5-vl"} <= set(found)
    assert "gpt-4.1" not in found
    assert any("Spearman's rho" in text and "6 models" in text for text in found)
    assert model_family("llava-ov-0.5b") == "llava-ov"
    assert model_family("7b") == "7b"


def test_hostile_names_are_text(run_data):
    name = "$\\frac{1}{0}$ <b>&amp; \u202e\x00\n" + "x" * 300
    renamed = pl.col("model").replace({"uniform": name})
    hostile = dataclasses.replace(
        run_data, planned=run_data.planned.with_columns(renamed), episodes=run_data.episodes.with_columns(renamed)
    )
    made = run_figures(hostile).figures()

    for figure in (made["actions"], made["budget"]):
        assert any(text.startswith("$\\frac{1}{0}$ <b>&amp;") and len(text) < 40 for text in texts(figure))
        ET.parse(io.BytesIO(plot_style.render(figure, "svg")))
