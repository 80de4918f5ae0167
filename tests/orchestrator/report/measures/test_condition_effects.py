"""The table "does a condition help": a two-way analysis of variance with models and scenarios as drawn."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from orchestrator.report.measures.paired_averages import condition_effects
from orchestrator.report.statistics.means import crossed_mean
from orchestrator.report.tables.uncertainty import effects_table
from tests.bench.planted_evidence import SCENARIOS, plant_cell, planted_run

N = 40


def planted(gains, models="abcd", leave_out=()):
    """Return a run where hints add ``gains`` (models, scenarios) right answers of ``N`` to the 10 without."""
    cells = []
    for model, row in zip(models, gains, strict=True):
        for scenario, gain in zip(SCENARIOS, row, strict=True):
            if (model, scenario) not in leave_out:
                cells.append(plant_cell(f"{model}/{scenario}/zero-shot", np.arange(N) < 10))
                cells.append(plant_cell(f"{model}/{scenario}/hint", np.arange(N) < 10 + gain))
    return planted_run(cells)


def test_effect_is_the_mean_over_models_and_scenarios():
    gains = np.array([[4, 8, 0], [6, 10, 2], [5, 7, 1], [9, 12, 5]])
    (row,) = condition_effects(planted(gains)).iter_rows(named=True)

    assert (row["condition"], row["models"], row["scenarios"], row["left_out"]) == ("hint", 4, 3, 0)
    assert row["difference"] == pytest.approx(100 * gains.mean() / N)
    assert row["difference_low"] < 0 < row["difference"] < row["difference_high"], "three scenarios differ too much"
    assert row["p"] == row["p_holm"] > 0.05
    assert row["between_scenarios"] > row["between_models"] > row["rest"] > 0
    (line,) = effects_table(planted(gains)).rows
    assert [cell.text for cell in line[:4]] == ["hint", "4", "3", "+14.4"]


def test_model_without_a_scenario_is_left_out_and_counted():
    gains = np.array([[4, 8, 0], [6, 10, 2], [5, 7, 1], [9, 12, 5]])
    row = condition_effects(planted(gains, leave_out={("d", "QD")})).row(0, named=True)

    assert (row["models"], row["left_out"]) == (3, 1)
    assert row["difference"] == pytest.approx(100 * gains[:3].mean() / N)


def test_two_models_say_nothing_about_models():
    assert condition_effects(planted(np.array([[4, 8, 0], [6, 10, 2]]), "ab")).is_empty()
    assert not effects_table(planted(np.array([[4, 8, 0], [6, 10, 2]]), "ab")).rows
    assert crossed_mean(np.full((4, 4), 2.0)) is None


def test_with_rows_that_alone_vary_it_is_students_test_over_rows():
    rows = np.array([1.0, 4.0, -2.0, 6.0, 3.0])
    mean, peer = crossed_mean(np.repeat(rows[:, None], 6, axis=1)), ttest_1samp(rows, 0)

    assert mean.p == pytest.approx(peer.pvalue)
    assert mean[1:3] == pytest.approx(tuple(peer.confidence_interval()))
    assert mean.rows == pytest.approx(rows.std(ddof=1)) and mean.columns == mean.rest == 0


def test_swapping_models_and_scenarios_changes_nothing():
    effects = np.random.default_rng(0).normal(2, 3, (6, 4))
    mean, turned = crossed_mean(effects), crossed_mean(effects.T)

    assert mean[:4] == pytest.approx(turned[:4])
    assert (mean.rows, mean.columns) == pytest.approx((turned.columns, turned.rows))
