"""Colors of figures on a dark page: every color has one, with enough contrast, and the light figure stays as it was."""

import re
import xml.etree.ElementTree as ET

import pytest
from matplotlib.colors import to_rgb

from orchestrator.report.figures import ACTIONS, CONDITIONS, GRAY, INK, SERIES, plots
from orchestrator.report.figures.draw import GROUND, dark_color, with_dark_colors


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colors (WCAG 2.2, relative luminance)."""

    def luminance(color: str) -> float:
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "color",
    sorted({INK, GRAY, *SERIES, *(look[1] for look in ACTIONS.values()), *(look[0] for look in CONDITIONS.values())}),
)
def test_marks_stand_out_in_the_dark(color):
    assert contrast(dark_color(color), GROUND) >= 3


def test_every_color_is_a_variable_with_two_values():
    with plots.house_style():
        figure = plots.new_figure(2)
        panel = figure.subplots()
        panel.barh([0, 1], [1, 2], color=["#f7dc6f", "#123456"], hatch="//", edgecolor="white")
        panel.set_title("title")
        plots.lay_out(figure)
    svg = plots.render(figure, "svg")
    themed = with_dark_colors(svg).decode()
    ET.fromstring(themed)
    rules, body = themed.split("</style>", 1)
    colors = set(re.findall(r"(?:fill|stroke)(?:: |=\")(#[0-9a-f]{6})", svg.decode()))

    assert {"#f7dc6f", "#123456", "#ffffff"} <= colors and not re.findall(r"(?:fill|stroke)(?:: |=\")#", body)
    for color in colors:
        assert f"--c{color[1:]}:{color};" in rules and f"--c{color[1:]}:{dark_color(color)};" in rules
