"""Foreign texts on a page: visible, cut with their length, in the paper's order, and inert inside a script."""

from orchestrator.report.html.text import visible
from orchestrator.view.page import TEMPLATE


def test_invisible_characters_are_spelled_and_long_texts_cut():
    assert visible("a\u202eb") == "a⟨U+202E⟩b" and visible(7) == "7"
    assert visible("x" * 200) == "x" * 200
    assert visible("x" * 201) == "x" * 200 + "… (201 characters)"
    assert visible("y" * 1_500, longest=2) == "yy… (1,500 characters)"


def test_json_cannot_leave_a_script():
    page = TEMPLATE.render(content={"b": "</script>&é"}, title="", answers=[], policy="", style="", script="")
    assert '>{"b": "\\u003c/script\\u003e\\u0026\\u00e9"}</script>' in page
