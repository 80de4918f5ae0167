"""Tool calls have tables of their own, and policies the figures that they are built for."""

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
from orchestrator.report.tables.tool_calls import malformed_calls, malformed_calls_table
from tests.orchestrator.report.runs import known, played, sweep

POLICIES = ["oracle", "always-ask", "guess", "abstain", "malformed-calls"]


@pytest.fixture(scope="module")
def both(demo_data, tmp_path_factory):
    """A run in both protocols, and its sweep."""
    wanted = sweep(demo_data, POLICIES, ["zero-shot", "hint"], protocol=["mcqa", "tools"], selection={"limit": 10})
    return played(tmp_path_factory.mktemp("tools") / "run", wanted), wanted


def test_policies_score_by_calls_what_they_score_by_letters(both):
    rows = read_run(both[0]).rows
    names = ["model", "scenario", "condition", "acc", "ps", "loops", "share_unparsable"]
    letters, calls = (rows.filter(protocol=name).select(names).sort(names[:3]) for name in ("mcqa", "tools"))

    assert letters.height == 5 * 7 * 2 and letters.equals(calls)
    assert set(calls.filter(model="oracle")["acc"]) == {100.0}


def test_planted_malformed_calls_are_counted_by_kind(both):
    """Every second sample by id gets one, the five kinds in turn (actors/engine/baselines.py)."""
    folder, wanted = both
    found = malformed_calls(read_run(folder)).filter(model="malformed-calls", condition="zero-shot")
    kinds = [Fault.NO_CALL, Fault.SEVERAL, Fault.UNREADABLE, Fault.UNKNOWN, Fault.ARGUMENTS]
    samples = build_plan(wanted).samples
    for row in found.iter_rows(named=True):
        ids = [sample.id for sample in samples[row["scenario"]]]
        planted = [kinds[one // 2 % 5] for one in ids if not one % 2]
        assert {kind: row[kind] for kind in Fault} == {kind: planted.count(kind) for kind in Fault}
        assert row["malformed"] == len(planted)
        acc = read_run(folder).rows.filter(cell=row["cell"])["acc"].item()
        assert acc == 100 * (len(ids) - len(planted)) / len(ids)
    assert malformed_calls(read_run(folder)).filter(pl.col("model") != "malformed-calls")["malformed"].sum() == 0


def test_no_table_of_letters_holds_a_call(both):
    made = {table.name: table for table in report_tables(read_run(both[0]))}
    alone = played(both[0].parent / "letters", both[1].model_copy(update={"protocols": both[1].protocols[:1]}))
    letters = {table.name: table for table in report_tables(read_run(alone))}

    assert set(made) - set(letters) == {"tools", "tools-malformed", "tools-paired"}
    for name in ("main", "conditions", "ranking", "samples-hardest", "share-changes"):
        if name in letters:
            assert made[name].rows == letters[name].rows, name
    assert [row[0].text for row in made["tools"].rows][:2] == ["oracle, zero-shot", "always-ask, zero-shot"]
    name, share, *_ = malformed_calls_table(read_run(both[0])).rows[-1]
    hint = read_run(both[0]).rows.filter(protocol="tools", model="malformed-calls", condition="hint")
    counts = malformed_calls(read_run(both[0])).filter(model="malformed-calls", condition="hint")
    turns = hint["turns"].sum()
    assert (name.text, share.text) == (
        "malformed-calls, hint",
        f"{100 * counts['malformed'].sum() / turns:.1f}% of {turns}",
    )


def test_a_call_is_shown_with_what_it_was_chosen_from_and_exported_as_it_was_asked(both, tmp_path):
    found = read_run(both[0])
    rows = found.episodes.filter(protocol="tools", scenario="COCO", condition="hint")
    turns = rows_by_key(found.turns, rows["key"])
    for row in rows.iter_rows(named=True):
        posed, reason = replay_episode(found, row, turns[row["key"]])
        assert len(posed) == row["turns"] and not reason
        chosen = [max(posed[turn["turn"]].said) for turn in turns[row["key"]]]
        assert [one >= 0 for one in chosen] == [turn["read_as"] != "" for turn in turns[row["key"]]]

    write(found, tmp_path)
    log = sorted(tmp_path.glob("*hint-tools*"))[0]
    with ZipFile(log) as packed:
        sample = json.loads(packed.read(next(name for name in packed.namelist() if name.startswith("samples/COCO"))))
    assert "- answer(category: " in sample["messages"][0]["content"] and "choices" not in sample


def test_compare_says_that_nothing_is_published(tmp_path):
    folder = known(tmp_path / "run", ["qwen2.5-vl-7b"], ["zero-shot"], most=3, protocol="tools")
    found = compare_with_paper(read_run(folder))

    assert found["published"].null_count() == found.height > 0
    assert set(found["reason"]) == {"no figure of tool calls is published: the paper has no such protocol"}
