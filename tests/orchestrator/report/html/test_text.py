"""Foreign texts on a page: visible, cut with their length, in the paper's order, and inert inside a script."""

import json

from orchestrator.report.html.text import visible
from orchestrator.view.page import inert


def test_invisible_characters_are_spelled_and_long_texts_cut():
    assert visible("a\u202eb") == "a⟨U+202E⟩b" and visible(7) == "7"
    assert visible("x" * 200) == "x" * 200
    assert visible("x" * 201) == "x" * 200 + "… (201 characters)"
    assert visible("y" * 1_500, longest=2) == "yy… (1,500 characters)"


def test_json_cannot_leave_a_script():
    content = {"b": "</script>&é", "a": [1, None]}
    assert inert(content) == '{"b":"\\u003c/script\\u003e\\u0026\\u00e9","a":[1,null]}'
    assert json.loads(inert(content)) == content
