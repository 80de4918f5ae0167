"""Planned sample sizes reach their precision and power, simulated with the report's intervals and tests."""

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.report.measures.sample_size import (
    comparison_families,
    half_width,
    samples_for_effect,
    samples_for_precision,
)
from orchestrator.report.statistics.exact_tests import holm, mcnemar
from tests.orchestrator.report.runs import BASELINES, sweep


@pytest.mark.parametrize("points", [1, 2, 5, 10])
def test_precision_is_reached_and_not_with_one_sample_fewer(points):
    n = samples_for_precision(points)

    assert max(half_width(n, share) for share in np.linspace(0, 1, 21)) <= points < half_width(n - 1)


@pytest.mark.parametrize(("points", "discordant", "family"), [(5, 0.2, 1), (5, 0.3, 200), (10, 0.3, 462)])
def test_effect_has_80_percent_power_in_family(points, discordant, family):
    n, rng = samples_for_effect(points, discordant, family), np.random.default_rng(0)
    gain = (discordant + points / 100) / 2
    counts = rng.multinomial(n, [gain, discordant - gain, 1 - discordant], size=3_000)
    p = np.array([holm(np.array([p_value]), family)[0] for p_value in mcnemar(counts[:, 0], counts[:, 1])])

    assert (p <= 0.05).mean() == pytest.approx(0.8, abs=0.03)


def test_effect_beyond_discordant_share_is_impossible():
    assert samples_for_effect(20, 0.1) is None
    assert samples_for_effect(5, 0.3, 1) < samples_for_effect(5, 0.3, 100) < samples_for_effect(2, 0.3, 100)


def test_families_match_those_of_report(demo_data):
    models = [*BASELINES, "qwen2.5-vl-3b", "qwen2.5-vl-7b"]
    wanted = sweep(demo_data, models, ["zero-shot", "hint", "reference"])

    assert comparison_families(wanted, planned_rows(build_plan(wanted))) == {
        "conditions with zero-shot": 2 * 2 * 7,
        "models under zero-shot": 7,
    }


def plan(*options):
    return CliRunner().invoke(app, ["plan", *map(str, options)])


def test_plan_prints_samples_and_gpu_hours(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(
        'name = "s"\ndata = "nowhere"\nmodels = ["qwen2.5-vl-3b", "qwen2.5-vl-7b"]\nconditions = ["zero-shot", "hint"]\n'
    )
    output = plan(file, "--precision", "2", "--detect", "5").stdout

    assert f"{samples_for_precision(2):,} samples per cell at 50% accuracy" in output
    assert f"VSOD 42 (+-{half_width(42):.1f})" in output
    assert f"{samples_for_effect(5, 0.3, 14):,} (30%)" in output and "among 14 comparisons" in output
    assert "GPU-hours in use on 8 H200" in output


def test_plan_refuses_what_it_cannot_plan(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('name = "s"\ndata = "nowhere"\nmodels = ["qwen2.5-vl-3b"]\nprotocol = "oeg"\n')
    refused = plan(file, "--precision", "2")

    assert refused.exit_code == 2 and "plan multiple choice" in refused.stderr
