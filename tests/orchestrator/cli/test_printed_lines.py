"""Texts that commands print, to the letter: refusals, notes, headings, and rows of ``ls``."""

import json

import polars as pl
import pytest

from orchestrator.cli.printing import print_sources
from orchestrator.storage import reused
from orchestrator.storage.episode_store import episodes
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report import runs


@pytest.mark.parametrize("command", ["fetch", "demo"])
def test_a_folder_below_a_file_cannot_be_written_to(command, tmp_path):
    (file := tmp_path / "notes").write_text("mine")
    folder = file / "deeper" / "still"

    assert call("data", command, folder).stderr == (
        f"proactive-sweep: {folder} cannot be written to: {file} is a file; name another folder\n"
    )


def test_bad_lines_come_before_what_was_taken_over(demo_data, tmp_path, capsys):
    wanted = runs.sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"], selection={"limit": 3})
    folder = runs.play_sweep(tmp_path / "run", wanted)
    days = pl.Series("taken", ["2026-11-22T10:00", "2026-11-22T11:00", "2026-11-23T10:00"])
    taken = episodes(folder).select("key", pl.lit(None, pl.String).alias("judge"), "cell").sort("key").collect()
    reused.record_reused(folder, taken.with_columns(days, folder=pl.lit("outputs/old")))
    print_sources(folder, ["line 3 of QD \x1b is no JSON", "line 4"])

    assert capsys.readouterr().out.splitlines() == [
        "left out: line 3 of QD \\x1b is no JSON",
        "left out: line 4",
        "2 episodes were played in outputs/old and taken over on 2026-11-22",
        "1 episode was played in outputs/old and taken over on 2026-11-23",
    ]


def test_ls_has_a_scenario_that_cannot_be_played_with_the_reason(tmp_path, monkeypatch):
    metadata = tmp_path / "my_games-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-games\nVersion: 1.5\n")
    (metadata / "entry_points.txt").write_text("[proactive_sweep.scenarios]\nmine = my_games:mine\n")
    (tmp_path / "my_games.py").write_text("def mine():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)

    *shipped, mine = json.loads(call("ls", "scenarios", "--json").stdout)
    assert mine == {
        "name": "mine",
        "file": "",
        "hint": "the scenario 'mine' of the installed package my-games 1.5 is of the type function; a scenario is a subclass of "
        "envs.Scenario",
        "package": "my-games 1.5",
    }
    assert (
        len(shipped) == 7
        and shipped[0]["file"] == "Realistic-Occlusion-Dataset_preprocessed.jsonl"
        and shipped[0]["package"] == ""
    )


def test_the_columns_of_data_filter(demo_data, tmp_path):
    wanted = runs.sweep(demo_data, ["oracle", "guess"], ["zero-shot"], scenarios=["CIT"], selection={"filtered": False})
    lines = call("data", "filter", runs.play_sweep(tmp_path / "run", wanted)).stdout.splitlines()

    heads = [" ".join(line.split()) for line in lines if line.split()[:1] in (["scenario"], ["rule"])]
    assert heads == [
        "scenario samples kept dropped undecided kept by paper kept by both first turn % of kept %",
        "rule right kept undecided kept by paper kept by both of kept % recall at 40% at chance",
    ]
    as_json = json.loads(call("data", "filter", tmp_path / "run", "--json").stdout)
    (cit, _) = as_json["thresholds"]["25"]
    row = next(line.split() for line in lines if line.split()[:1] == ["CIT"])
    names = ("samples", "kept", "gone", "undecided", "published", "shared")
    assert row[1:7] == [str(cit[name]) for name in names]
    assert row[7] == f"{cit['first_turn']:.1f}"
