"""JSON for programs: ASCII, indented, with null for what is no number."""

from __future__ import annotations

import math

import pytest

from orchestrator.cli.printing import print_json


def test_unknown_figures_are_null_and_foreign_text_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [math.nan, -math.inf, 0.5, 0, None, True], 3: ("ü\x1b", {"b": math.inf})})

    assert capsys.readouterr().out == (
        '{\n  "a": [\n    null,\n    null,\n    0.5,\n    0,\n    null,\n    true\n  ],\n'
        '  "3": [\n    "\\u00fc\\u001b",\n    {\n      "b": null\n    }\n  ]\n}\n'
    )
