"""Colors in the dark, looks of series, labels, and what the house style sets."""

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


def test_a_page_in_the_dark_has_its_ground_and_text():
    svg = b'<svg width="1"><path style="fill: #ffffff; stroke: #123456"/></svg>'

    assert plot_style.with_dark_colors(svg) == (
        b'<svg width="1"><style>:root{fill:#000;--c123456:#123456;--cffffff:#ffffff;}@media (prefers-color-scheme:dark)'
        b"{:root{fill:#e4e5e7;--c123456:#92bde8;--cffffff:#1b1e22;}}</style>"
        b'<path style="fill: var(--cffffff); stroke: var(--c123456)"/></svg>'
    )
