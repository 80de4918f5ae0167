"""docs/data-format.md is the format: a folder built from the page alone plays, and every field that it names is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from envs import SCENARIOS
from envs.check import check, reachable_pictures
from envs.sample_line import COMMON_FIELDS, BadSample, parse_sample
from orchestrator.report.read_run import read_run
from tests.orchestrator.report import runs

PAGE = (Path(__file__).parents[2] / "docs/data-format.md").read_text(encoding="utf-8")
LINES = dict(re.findall(r"^([A-Z-]+):\n```json\n(.*?)\n```", PAGE, re.S | re.M))
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")
]
OWN = {row[0]: row[3] for row in ROWS if row[0] in SCENARIOS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the page says, and a picture wherever play can ask for one."""
    folder_path = tmp_path_factory.mktemp("own") / "data"
    folder_path.mkdir()
    for name, line in LINES.items():
        (folder_path / f"{SCENARIOS[name].stem}_preprocessed.jsonl").write_text(line + "\n")
        for reference in reachable_pictures(parse_sample(line, name)):
            (folder_path / reference.path).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (90, 60), (0, 90, 200)).save(folder_path / reference.path)
    return folder_path


def test_folder_built_from_page_is_good_and_playable(folder, tmp_path):
    assert list(check(folder, list(SCENARIOS), filtered=False, deep=True).lines())[-1] == "all good"
    sweep = runs.sweep(folder, ["oracle", "uniform"], ["zero-shot", "hint", "reference"], selection={"filtered": False})
    rows = read_run(runs.play_sweep(tmp_path / "run", sweep)).rows

    assert rows.height == 2 * 7 * 3 and rows["finished"].to_list() == rows["planned"].to_list()
    assert set(rows.filter(model="oracle")["acc"]) == {100.0} and rows["errors"].sum() == 0


def test_the_page_names_every_field_and_no_other():
    common = {row[0].strip("`") for row in ROWS if row[0].strip("`") in COMMON_FIELDS}
    assert common == set(COMMON_FIELDS) and LINES.keys() == SCENARIOS.keys() == OWN.keys()
    for name, line in LINES.items():
        own = json.loads(line)
        assert {*own, *own.get("crop", {})} - set(COMMON_FIELDS) <= set(re.findall(r"`(\w+)`", OWN[name])), name
        (row,) = (row for row in ROWS if row[0] == name)
        assert row[1] == f"`{SCENARIOS[name].stem}_preprocessed.jsonl`"
        assert set(re.findall(r"\{(\w+)\}", row[2])) == set(SCENARIOS[name].placeholders)
        assert all(f"`{cue}" in row[4] or f"`{cue.capitalize()}" in row[4] for cue in SCENARIOS[name].cue), row[4]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_field_but_the_optional_one_is_required(name):
    entry = json.loads(LINES[name])
    for field in entry:
        line = json.dumps({key: value for key, value in entry.items() if key != field})
        if field == "strong_occlusions":
            assert parse_sample(line, name)
        else:
            with pytest.raises(BadSample, match=field):
                parse_sample(line, name)
