"""The primary endpoint is tested apart, all else in one family; a condition that changes nothing is found to be equivalent."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from orchestrator.report.measures.families import declared_changes, evidence_settings, pair_models
from orchestrator.report.measures.paired_averages import compare_condition_averages, compare_model_averages
from orchestrator.report.measures.paired_tests import compare_conditions
from orchestrator.report.statistics.exact_tests import holm
from orchestrator.report.tables.evidence import paired_table
from sweeps.sections import Evidence
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

CONDITIONS = ("zero-shot", "hint", "history")
SCENARIOS = ("ROD", "QD")


@pytest.fixture(scope="module")
def planted(run_data):
    """Two models: hints help both, history changes one answer in a hundred of each."""
    rng, rows = np.random.default_rng(3), []
    for model in ("a", "b"):
        for scenario in SCENARIOS:
            base = rng.random(400) < 0.5
            answers = {
                "zero-shot": base,
                "hint": base | (rng.random(400) < 0.1),
                "history": base ^ (rng.random(400) < 0.01),
            }
            rows += [
                episode(number, f"{model}/{scenario}/{condition}", correct=bool(right), turns=1)
                for condition in CONDITIONS
                for number, right in enumerate(answers[condition])
            ]
    return replace_episodes(run_data, rows)


def declare(run_data, **evidence):
    sweep = run_data.sweep.model_copy(update={"evidence": Evidence(**evidence)})
    return dataclasses.replace(run_data, sweep=sweep)


def test_the_primary_endpoint_is_corrected_over_its_models_alone(planted):
    run = declare(planted, primary="hint")
    averages = compare_condition_averages(run)
    primary = averages.filter(endpoint="primary")
    margin, tests = evidence_settings(run)

    # cells 2 x 2 x 2, averages 2 x 2, pairs of models: 2 cells and 1 average; two measures each, less two primary tests
    assert (margin, tests) == (2.0, 2 * (8 + 4 + 2 + 1) - 2)
    assert set(primary["condition"]) == {"hint"} and primary["p_holm"].to_list() == pytest.approx(
        holm(primary["p"].to_numpy()).tolist()
    )
    cells = compare_conditions(run)
    assert cells["p_holm"].to_list() == pytest.approx(holm(cells["p"].to_numpy(), tests).tolist())
    models = compare_model_averages(run)
    assert models["p_holm"].to_list() == pytest.approx(holm(models["p"].to_numpy(), tests).tolist())
    assert (
        f"Holm over all {tests} exploratory tests, and separately over means of hint, the primary endpoint"
        in paired_table(run).title
    )
    assert compare_condition_averages(planted)["endpoint"].null_count() == 4, "no question is declared"


def test_a_condition_that_changes_nothing_is_equivalent(planted):
    rows = {(row["model"], row["condition"]): row for row in compare_condition_averages(planted).iter_rows(named=True)}
    narrow = compare_condition_averages(declare(planted, margin=0.2)).filter(condition="history")

    for model in ("a", "b"):
        assert rows[model, "history"]["equal_p_holm"] < 0.05 < rows[model, "history"]["p_holm"]
        assert rows[model, "hint"]["equal_p"] > 0.5 and rows[model, "hint"]["p_holm"] < 0.05
    assert (narrow["equal_p_holm"] > 0.05).all(), "1% of answers are not shown to lie within 0.2 points"
    lines = {line[0].text: line[-1].text for line in paired_table(planted).rows}
    assert "= (" in lines["a, history"] and "* (" in lines["a, hint"]


def test_comparisons_of_cells_averages_and_pairs_are_counted(planted):
    """Two models, two scenarios, two other conditions: 8 changes, 4 averages, 2 pairs and 1 average of a pair, twice."""
    none = dataclasses.replace(planted, sweep=planted.sweep.model_copy(update={"evidence": None}))
    wide = Evidence(margin=3.0)
    margin = dataclasses.replace(planted, sweep=planted.sweep.model_copy(update={"evidence": wide}))
    primary = Evidence(primary="hint", margin=3.0)
    exploratory = dataclasses.replace(planted, sweep=planted.sweep.model_copy(update={"evidence": primary}))

    assert evidence_settings(none) == (2.0, 0) and evidence_settings(margin) == (3.0, 0)
    assert evidence_settings(exploratory) == (3.0, 2 * (8 + 4 + 2 + 1) - 2)


def test_every_pair_of_models_is_compared_once_on_the_same_cells():
    rows = pl.LazyFrame({"model": ["b", "a", "a", "c"], "scenario": ["QD", "QD", "ROD", "QD"], "n": [1, 2, 3, 4]})
    pairs = pair_models(rows, ["scenario"]).collect().sort("model", "other")

    assert pairs.rows() == [("a", "QD", 2, "b", 1), ("a", "QD", 2, "c", 4), ("b", "QD", 1, "c", 4)]
    cells = pl.DataFrame(
        [("m", "zero-shot", "QD"), ("m", "hint", "QD"), ("m", "hint", "ROD"), ("n", "hint", "QD")],
        schema=["model", "condition", "scenario"], orient="row",
    ).with_columns(protocol=pl.lit("mcqa"))  # fmt: skip
    assert declared_changes(cells).rows() == [("m", "hint", "QD", "mcqa")]
