"""Foreign texts on a page: visible, cut with their length, in the paper's order, and inert inside a script."""

import json

from orchestrator.report.html.text import cut, inert, join_names, paper_order, policy_hash, visible


def test_invisible_characters_are_spelled_and_long_texts_cut():
    assert visible("a\u202eb") == "a⟨U+202E⟩b" and visible(7) == "7"
    assert visible("x" * 200) == "x" * 200
    assert visible("x" * 201) == "x" * 200 + "… (201 characters)"
    assert visible("y" * 1_500, longest=2) == "yy… (1,500 characters)"


def test_a_cut_text_has_its_full_length():
    assert cut("abc", 3) == ("abc", 0)
    assert cut("abcd", 3) == ("abc", 4)


def test_four_names_are_listed_and_the_others_counted():
    assert join_names(["a", "b\u200b", "c", "d"]) == "a, b⟨U+200B⟩, c, d"
    assert join_names(["a", "b", "c", "d", "e"]) == "a, b, c, d and 1 more"
    assert join_names(["a", "b"], 1) == "a and 1 more"


def test_the_papers_names_come_first():
    assert paper_order(["own", "MVP-N", "ROD", "also", "ROD"]) == ["ROD", "MVP-N", "also", "own"]
    assert paper_order(["b", "a"], order=["c", "b"]) == ["b", "a"]


def test_json_cannot_leave_a_script():
    content = {"b": "</script>&é", "a": [1, None]}

    assert inert(content) == '{"b":"\\u003c/script\\u003e\\u0026\\u00e9","a":[1,null]}'
    assert json.loads(inert(content)) == content


def test_a_policy_names_a_script_by_its_hash():
    assert policy_hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
