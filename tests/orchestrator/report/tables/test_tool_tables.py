"""Tool calls have their own tables, and policies score as designed."""

from __future__ import annotations

import json
from zipfile import ZipFile

import polars as pl
import pytest

from envs.tool_calls import Fault
from orchestrator.export.inspect_log import write
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.comparisons.paper_comparison import compare_with_paper
from orchestrator.report.html.episode_view import replay_episode, rows_by_key
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.behavior import malformed_calls, malformed_calls_table
from tests.orchestrator.report.runs import play_sweep, sweep, write_published_run

POLICIES = ["oracle", "always-ask", "guess", "abstain", "malformed-calls"]


@pytest.fixture(scope="module")
def both_protocols(demo_data, tmp_path_factory):
    """A run in both protocols, and its sweep."""
    wanted = sweep(demo_data, POLICIES, ["zero-shot", "hint"], protocol=["mcqa", "tools"], selection={"limit": 10})
    return play_sweep(tmp_path_factory.mktemp("tools") / "run", wanted), wanted


def test_policies_score_equally_by_calls_and_letters(both_protocols):
    rows = read_run(both_protocols[0]).rows
    names = ["model", "scenario", "condition", "acc", "ps", "loops", "share_unparsable"]
    letters, calls = (rows.filter(protocol=name).select(names).sort(names[:3]) for name in ("mcqa", "tools"))

    assert letters.height == 5 * 7 * 2 and letters.equals(calls)
    assert set(calls.filter(model="oracle")["acc"]) == {100.0}


def test_planted_malformed_calls_are_counted_by_kind(both_protocols):
    """Every second sample by id gets a malformed call, of the five kinds in turn (actors/engine/baselines.py)."""
    folder, wanted = both_protocols
    counts = malformed_calls(read_run(folder)).filter(model="malformed-calls", condition="zero-shot")
    kinds = [Fault.NO_CALL, Fault.SEVERAL, Fault.UNREADABLE, Fault.UNKNOWN, Fault.ARGUMENTS]
    samples = build_plan(wanted).samples
    for row in counts.iter_rows(named=True):
        ids = [sample.id for sample in samples[row["scenario"]]]
        planted = [kinds[sample_id // 2 % 5] for sample_id in ids if not sample_id % 2]
        assert {kind: row[kind] for kind in Fault} == {kind: planted.count(kind) for kind in Fault}
        assert row["malformed"] == len(planted)
        acc = read_run(folder).rows.filter(cell=row["cell"])["acc"].item()
        assert acc == 100 * (len(ids) - len(planted)) / len(ids)
    assert malformed_calls(read_run(folder)).filter(pl.col("model") != "malformed-calls")["malformed"].sum() == 0


def test_tool_calls_change_no_letter_table(both_protocols):
    tables = {table.name: table for table in report_tables(read_run(both_protocols[0]))}
    alone = play_sweep(
        both_protocols[0].parent / "letters",
        both_protocols[1].model_copy(update={"protocols": both_protocols[1].protocols[:1]}),
    )
    letters = {table.name: table for table in report_tables(read_run(alone))}

    assert set(tables) - set(letters) == {"tools", "tools-malformed", "tools-paired"}
    for name in ("main", "conditions", "ranking", "samples-hardest", "share-changes"):
        if name in letters:
            assert tables[name].rows == letters[name].rows, name
    assert [row[0].text for row in tables["tools"].rows][:2] == ["oracle, zero-shot", "always-ask, zero-shot"]
    name, share, *_ = malformed_calls_table(read_run(both_protocols[0])).rows[-1]
    hint = read_run(both_protocols[0]).rows.filter(protocol="tools", model="malformed-calls", condition="hint")
    counts = malformed_calls(read_run(both_protocols[0])).filter(model="malformed-calls", condition="hint")
    turns = hint["turns"].sum()
    assert (name.text, share.text) == (
        "malformed-calls, hint",
        f"{100 * counts['malformed'].sum() / turns:.1f}% of {turns}",
    )


def test_call_is_shown_with_its_options_and_exported(both_protocols, tmp_path):
    run_data = read_run(both_protocols[0])
    rows = run_data.episodes.filter(protocol="tools", scenario="COCO", condition="hint")
    turns = rows_by_key(run_data.turns, rows["key"])
    for row in rows.iter_rows(named=True):
        posed, reason = replay_episode(run_data, row, turns[row["key"]])
        assert len(posed) == row["turns"] and not reason
        chosen = [max(posed[turn["turn"]].said) for turn in turns[row["key"]]]
        assert [option >= 0 for option in chosen] == [turn["read_as"] != "" for turn in turns[row["key"]]]

    write(run_data, tmp_path)
    log = sorted(tmp_path.glob("*hint-tools*"))[0]
    with ZipFile(log) as packed:
        sample = json.loads(packed.read(next(name for name in packed.namelist() if name.startswith("samples/COCO"))))
    picture, question = sample["messages"][0]["content"]
    assert picture["type"] == "image" and "- answer(category: " in question["text"] and "choices" not in sample


def test_tool_calls_have_no_published_figures(tmp_path):
    folder = write_published_run(tmp_path / "run", ["qwen2.5-vl-7b"], ["zero-shot"], most=3, protocol="tools")
    comparison = compare_with_paper(read_run(folder))

    assert comparison["published"].null_count() == comparison.height > 0
    assert set(comparison["reason"]) == {"no figure of tool calls is published: the paper has no such protocol"}
