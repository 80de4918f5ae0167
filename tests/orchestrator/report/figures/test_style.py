"""Colors in the dark, looks of series, labels, and what the house style sets."""

import matplotlib

from orchestrator.report.figures import style as plot_style


def test_dark_colors_mirror_the_lightness_of_others():
    # white, black and ink have their own; a pure red keeps its hue: lightness 0.5 becomes 0.12 + 0.78 / 2 = 0.51
    assert plot_style.dark_color("#ffffff") == "#1b1e22" and plot_style.dark_color("#222222") == "#e4e5e7"
    assert plot_style.dark_color("#ff0000") == "#ff0505"
    # a gray of lightness 0.8 becomes 0.12 + 0.78 x 0.2 = 0.276
    assert plot_style.dark_color("#cccccc") == "#464646"


def test_series_and_labels():
    assert [plot_style.series_look(number)[1] for number in range(11)] == list("os^DvPX*<>o")
    assert plot_style.series_look(6) == (plot_style.SERIES[0], "X")
    assert plot_style.short_label("x" * 26) == "x" * 26 and plot_style.short_label("x" * 27) == "x" * 25 + "…"
    assert plot_style.gray("#ffffff") == "1.0" and plot_style.gray("#ff0000") == "0.299"


def test_house_style_is_plain():
    with plot_style.house_style():
        figure = plot_style.new_figure(3.0, 2.0)
        panel = figure.subplots()
        panel.set_title("title")
        look = {name: matplotlib.rcParams[name] for name in plot_style.STYLE}

    assert tuple(figure.get_size_inches()) == (3.0, 2.0)
    assert {side: spine.get_visible() for side, spine in panel.spines.items()} == {
        "left": True, "bottom": True, "top": False, "right": False,
    }  # fmt: skip
    assert matplotlib.colors.to_hex(panel.spines["left"].get_edgecolor()) == "#555555"
    assert panel.get_title("left") == "title" and panel.title.get_text() == ""
    assert [line.get_visible() for line in panel.get_xgridlines()[:1]] == [True] and panel.get_axisbelow() is True
    assert not any(line.get_visible() for line in panel.get_ygridlines())
    assert {look[name] for name in look if name.endswith(("size", "fontsize")) and "tick.major" not in name} == {7.0}
    assert (look["pdf.fonttype"], look["svg.fonttype"], look["legend.frameon"], look["text.parse_math"]) == (
        42, "path", False, False
    )  # fmt: skip
    assert look["figure.facecolor"] == look["savefig.facecolor"] == "white"
