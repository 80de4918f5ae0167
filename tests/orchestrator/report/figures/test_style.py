"""Colors in the dark, looks of series, labels, and what the house style sets."""

import io

import matplotlib
from PIL import Image

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
    assert (look["xtick.major.size"], look["ytick.major.size"], look["grid.color"]) == (2, 0, "#dddddd"), (
        "no marks of models"
    )
    assert look["figure.facecolor"] == look["savefig.facecolor"] == "white"


def test_kinds_of_answers_have_their_words_hatches_and_colors():
    assert plot_style.ACTIONS == {
        "share_suggestion": ("suggestion", "#14406b", ""), "share_right": ("right category", "#0f7f58", "////"),
        "share_wrong": ("wrong category", "#e8893a", "\\\\\\\\"), "share_abstention": ("abstention", "#f7dc6f", "||||"),
        "share_unparsable": ("unparsable", "#bdbdbd", "xxxx"),
    }  # fmt: skip


def test_every_color_of_a_figure_has_its_own_in_the_dark():
    colors = ("#000000", plot_style.GRAY, plot_style.INK, "#f7dc6f", "#bdbdbd", "#666666", *plot_style.SERIES)

    assert [plot_style.dark_color(color) for color in colors] == [
        "#e4e5e7", "#8f959d", "#e4e5e7", "#d9bf52", "#8a8e94", "#a3a8af", "#5b93c9", "#e08a43", "#36ad80", "#d278b4",
        "#c7a838", "#8fd0ff",
    ]  # fmt: skip


def test_pictures_have_two_hundred_dots_an_inch_and_pages_their_heights():
    assert plot_style.DPI == 200
    assert (plot_style.COLUMN, plot_style.PAGE, plot_style.TALLEST, plot_style.SMALLEST) == (3.25, 6.75, 9.0, 7.0)
    assert (plot_style.UNFINISHED, plot_style.GRAY, plot_style.FAINT) == (0.4, "#8a8a8a", "#d8d8d8")
    with plot_style.house_style():
        png = plot_style.render(plot_style.new_figure(1.0, 0.5), "png")
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.size == (200, 100)


def test_a_saved_figure_is_a_png_and_an_svg(tmp_path):
    with plot_style.house_style():
        paths = plot_style.save_figure(plot_style.new_figure(1.0, 1.0), tmp_path, "name")

    assert [path.name for path in paths] == ["name.png", "name.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG") and b"<svg" in paths[1].read_bytes()


def test_a_page_in_the_dark_has_its_ground_and_text():
    svg = b'<svg width="1"><path style="fill: #ffffff; stroke: #123456"/></svg>'

    assert plot_style.with_dark_colors(svg) == (
        b'<svg width="1"><style>:root{fill:#000;--c123456:#123456;--cffffff:#ffffff;}@media (prefers-color-scheme:dark)'
        b"{:root{fill:#e4e5e7;--c123456:#92bde8;--cffffff:#1b1e22;}}</style>"
        b'<path style="fill: var(--cffffff); stroke: var(--c123456)"/></svg>'
    )
