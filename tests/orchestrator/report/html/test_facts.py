"""Facts about a run, word by word: how much was played, by what, on which data, and what is not finished."""

import dataclasses

import polars as pl
import pytest

from orchestrator.report.html import summary
from orchestrator.report.html.summary import list_facts, list_problems
from orchestrator.report.read_run import read_run
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes
from tests.orchestrator.report.runs import play_sweep, sweep


def facts_of(run):
    return dict(list_facts(run))


def test_facts_of_a_run_of_policies(run_data):
    facts = facts_of(run_data)

    assert list(facts) == [
        "Played", "Models", "Scenarios", "Conditions", "Data", "Decoding", "Prompt text", "Judge", "Intervals", "Seed", "Program",
    ]  # fmt: skip
    assert facts["Models"] == "none; baselines: oracle, always-ask, abstain, uniform, guess, first-option"
    assert facts["Scenarios"] == "ROD, VSOD, MVP-N, IN-C, QD, CIT, COCO"
    assert facts["Conditions"] == "zero-shot, hint, history, icl-1, icl-3, random-proactive, reference"
    assert facts["Data"] == (
        "70 samples, the paper's filter; other data: the pictures are the demo benchmark's, not the published ones"
    )
    assert facts["Judge"] == "none: multiple choice is read by rule, as the package reads it"
    assert facts["Prompt text"] == "mcqa-1: the keys of the stored episodes agree with it"
    assert facts["Seed"] == str(run_data.sweep.seed)


def test_models_are_counted_apart_from_baselines(run_data):
    run = replace_episodes(run_data, [episode(0, f"{name}/QD/hint") for name in ("zebra", "ant", "guess")])

    assert facts_of(run)["Models"] == "2: ant, zebra; baselines: guess"
    assert facts_of(run)["Played"] == "3 of 3 planned episodes (100%), 3 cells"
    assert summary._model_names(replace_episodes(run_data, [episode(0, "ant/QD/hint")])) == "1: ant"
    assert facts_of(run)["Prompt text"] == (
        "mcqa-1 in this program; without the data folder the stored keys cannot be checked against it"
    )


def test_unfinished_cells_count_what_is_not_played(run_data):
    rows = [*(episode(n, "m/QD/hint") for n in range(3)), *(episode(n, "m/ROD/hint") for n in range(2))]
    run = replace_episodes(run_data, rows, planned=3)

    assert list_problems(run)[0] == (
        "1 of 6 planned episodes not played yet, in 1 of 2 cells: m/ROD/hint; their measures cover the finished episodes"
    )
    assert facts_of(run)["Played"] == "5 of 6 planned episodes (83.3%), 2 cells"
    assert not [line for line in list_problems(replace_episodes(run_data, rows)) if "not played" in line]


@pytest.mark.parametrize(
    ("protocol", "options", "judge"),
    [
        ("oeg", {}, "open-ended answers are not judged yet"),
        ("tools", {}, "none: function calls are read by rule"),
        ("oeg-multi", {"judge": {"model": "rule-judge"}},
         "{}: reads each answer before the next picture is shown"),
    ],
)  # fmt: skip
def test_each_protocol_has_its_reader(demo_data, tmp_path, protocol, options, judge):
    wanted = sweep(demo_data, ["guess"], ["zero-shot"], scenarios=["QD"], protocol=protocol, **options)
    run = read_run(play_sweep(tmp_path / "run", wanted, only=1))
    name = summary.turn_judge_key(wanted.turn_judge) if wanted.turn_judge else ""

    assert facts_of(run)["Judge"] == judge.format(name)


def test_a_running_sweep_and_damaged_parts_are_problems(run_data, tmp_path, monkeypatch):
    run = dataclasses.replace(run_data, notes=("first note", "x" * 500))
    monkeypatch.setattr(summary, "read_status", lambda _: {"running": True})
    monkeypatch.setattr(summary, "damaged_parts", lambda _: [tmp_path / "turns" / "part-1.parquet"])

    assert list_problems(run) == [
        "the sweep is still running: this page is a snapshot",
        "first note",
        f"{'x' * 400}… (500 characters)",
        "turns/part-1.parquet cannot be used and counts as absent",
    ]


def test_errors_list_the_three_commonest_causes(run_data):
    causes = ["b", "b", "a", "a", "c", "c", "c", "d"]
    rows = [episode(n, "m/QD/hint", "failed", error=cause) for n, cause in enumerate(causes)]

    assert list(summary._errors(replace_episodes(run_data, rows))) == [
        "without an answer, left out of all measures: 8 episodes (8 failed)", "3 times: c", "2 times: b", "2 times: a",
    ]  # fmt: skip


def test_subset_of_the_papers_data_is_named(run_data, monkeypatch):
    monkeypatch.setattr(summary, "foreign_scenarios", lambda _: {})
    monkeypatch.setattr(summary, "subset_scenarios", lambda _: {"QD": "a subset: 1 sample", "ROD": "a subset"})
    run = replace_episodes(run_data, [episode(n, f"m/{name}/hint") for name in ("QD", "ROD") for n in range(2)])
    published = "4 samples, the paper's filter; ids and numbers are those of the published benchmark"

    assert summary._data(run) == f"{published}; a subset in ROD, QD"
    monkeypatch.setattr(summary, "foreign_scenarios", lambda _: {"QD": "one", "ROD": "two", "CIT": "three"})
    assert summary._data(run) == "4 samples, the paper's filter; one; two"
    unfiltered = run.sweep.model_copy(update={"selection": run.sweep.selection.model_copy(update={"filtered": False})})
    assert summary._data(dataclasses.replace(run, sweep=unfiltered)) == "4 samples, unfiltered; one; two"


def test_decoding_of_every_protocol(demo_data):
    wanted = sweep(demo_data, ["guess"], ["zero-shot"], protocol=["mcqa", "oeg"])
    both = summary._decoding(wanted)

    assert both.split("; ")[0] == "multiple choice greedy, at most 50 new tokens a reply"
    assert both.split("; ")[1].startswith("open-ended ") and both.endswith(" new tokens a reply")
    assert pl.Series(both.split("; ")).str.contains("at most").all()
