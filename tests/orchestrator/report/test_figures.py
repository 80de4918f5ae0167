"""Figures are the same bytes for the same run, are left out where there is nothing, and take names for text."""

import dataclasses
import io
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib import colors
from PIL import Image

from orchestrator.report import plot_style
from orchestrator.report.figures import family, figures, write_figures
from orchestrator.report.run_data import read
from tests.orchestrator.report.runs import known, played, sweep

ALL = {"reference", "actions", "actions-behind", "conditions", "budget"}


@pytest.fixture(scope="module")
def drawn(run_data):
    return figures(run_data)


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


def test_every_figure_is_written_as_vector_and_picture(run):
    files = {path.name: path for path in write_figures(run)}

    assert set(files) == {f"{name}.{ending}" for name in ALL for ending in ("png", "svg")}
    for name in ALL:
        assert ET.parse(files[f"{name}.svg"]).getroot().tag.endswith("svg")
        with Image.open(files[f"{name}.png"]) as picture:
            assert picture.width > 600 and np.asarray(picture.convert("L")).std() > 5, "something is drawn"


def test_the_same_run_gives_the_same_bytes(run_data, drawn):
    again = figures(run_data)

    assert plot_style.svg(drawn["actions"]) == plot_style.svg(again["actions"])
    assert plot_style.png(drawn["budget"]) == plot_style.png(again["budget"])
    assert b"<dc:date>" not in plot_style.svg(drawn["budget"])


def test_bars_are_the_shares_and_fill_the_hundred(run_data, drawn):
    panel = drawn["actions"].axes[0]
    rows: dict[float, float] = {}
    for bar in panel.patches:
        rows[bar.get_y()] = rows.get(bar.get_y(), 0) + bar.get_width()

    assert len(rows) == 6
    assert list(rows.values()) == pytest.approx([100.0] * 6)


def test_nothing_outside_a_figure_changes_its_style():
    before = dict(matplotlib.rcParams)
    with plot_style.house():
        assert matplotlib.rcParams["svg.hashsalt"] == "proactive-sweep"

    assert dict(matplotlib.rcParams) == before


def test_colours_differ_in_grey_or_by_hatch():
    grey = [
        0.299 * r + 0.587 * g + 0.114 * b for r, g, b in (colors.to_rgb(c) for _, c, _ in plot_style.ACTIONS.values())
    ]
    hatches = [hatch for _, _, hatch in plot_style.ACTIONS.values()]

    assert len(set(hatches)) == len(hatches)
    assert all(abs(a - b) > 0.04 for n, a in enumerate(grey) for b in grey[:n])
    markers = [marker for name, (_, marker) in plot_style.CONDITIONS.items() if name != "reference"]
    assert len(set(markers)) == len(markers)
    assert len({plot_style.series(number) for number in range(30)}) == 30


def test_unfinished_is_said_and_pale(demo_data, tmp_path):
    folder = played(tmp_path / "run", sweep(demo_data, ["oracle", "uniform"]), only=600)
    made = figures(read(folder))

    assert "not played" in texts(made["reference"])
    assert any("% played)" in text for text in texts(made["actions"]))
    assert any("(unfinished)" in text for text in texts(made["budget"]))
    assert all("pale: unfinished" in texts(made[name]) for name in ("reference", "actions", "conditions"))


def test_a_run_of_one_condition_has_only_the_figures_it_can_have(run_data):
    one = dataclasses.replace(run_data, planned=run_data.planned.filter(condition="zero-shot"))
    nothing = dataclasses.replace(run_data, planned=run_data.planned.clear(), episodes=run_data.episodes.clear())

    assert set(figures(one)) == {"actions", "budget"}
    assert figures(nothing) == {}


def test_capacity_shows_sized_models_by_family(tmp_path):
    models = ["internvl3-1b", "internvl3-2b", "internvl3-8b", "qwen2.5-vl-3b", "gpt-4.1"]
    made = figures(read(known(tmp_path / "run", models, ("zero-shot",), most=40)))
    shown = texts(made["capacity"])

    assert {"internvl3", "qwen2.5-vl"} <= set(shown)
    assert "gpt-4.1" not in shown
    assert any("Spearman's rho" in text and "4 models" in text for text in shown)
    assert family("llava-ov-0.5b") == "llava-ov"
    assert family("7b") == "7b"


def test_hostile_names_are_text(run_data):
    name = "$\\frac{1}{0}$ <b>&amp; \u202e\x00\n" + "x" * 300
    renamed = pl.col("model").replace({"uniform": name})
    hostile = dataclasses.replace(
        run_data, planned=run_data.planned.with_columns(renamed), episodes=run_data.episodes.with_columns(renamed)
    )
    made = figures(hostile)

    for figure in (made["actions"], made["budget"]):
        assert any(text.startswith("$\\frac{1}{0}$ <b>&amp;") and len(text) < 40 for text in texts(figure))
        ET.parse(io.BytesIO(plot_style.svg(figure)))
