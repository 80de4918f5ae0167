"""Facts about a run, word by word: how much was played, by what, on which data, and what is not finished."""

import dataclasses

from orchestrator.report.html import summary
from orchestrator.report.html.summary import list_facts, list_problems
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes


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


def test_a_running_sweep_and_notes_are_problems(run_data, monkeypatch):
    run = dataclasses.replace(run_data, notes=("first note", "x" * 500))
    monkeypatch.setattr(summary, "read_status", lambda _: {"running": True})

    assert list_problems(run) == [
        "the sweep is still running: this page is a snapshot",
        "first note",
        f"{'x' * 400}… (500 characters)",
    ]


def test_errors_list_the_three_commonest_causes(run_data):
    causes = ["b", "b", "a", "a", "c", "c", "c", "d"]
    rows = [episode(n, "m/QD/hint", "failed", error=cause) for n, cause in enumerate(causes)]

    assert list(summary._errors(replace_episodes(run_data, rows))) == [
        "without an answer, left out of all measures: 8 episodes (8 failed)", "3 times: c", "2 times: b", "2 times: a",
    ]  # fmt: skip
