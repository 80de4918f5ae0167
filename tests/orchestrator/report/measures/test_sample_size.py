"""Planned sample sizes reach their precision and power, simulated with the report's intervals and tests."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.planning.build_plan import build_plan, planned_rows
from orchestrator.report.measures import sample_size as room
from orchestrator.report.measures.sample_size import (
    comparison_families,
    half_width,
    samples_for_effect,
    samples_for_precision,
)
from orchestrator.report.statistics.exact_tests import holm, mcnemar
from orchestrator.report.statistics.proportion import proportion_interval
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


def test_precision_names_the_scenarios_that_are_too_small():
    assert room._precision_lines(0.001, None, {"QD": 5}) == ["+-0.001 points: more than 10,000,000 samples per cell"]
    (line,) = room._precision_lines(2.5, 1_533, {"ROD": 42, "QD": 1_533, "CIT": 1_532})
    assert line == (
        "+-2.5 points at 95%: 1,533 samples per cell at 50% accuracy, fewer at any other; scenarios with fewer samples: ROD 42 "
        f"(+-{room.half_width(42):.1f}), CIT 1,532 (+-2.5)"
    )
    (enough,) = room._precision_lines(2.5, 1_533, {"QD": 1_533})
    assert enough == "+-2.5 points at 95%: 1,533 samples per cell at 50% accuracy, fewer at any other"


def test_effects_name_the_comparisons_and_the_shares_that_differ():
    assert room._effect_lines(5, "conditions with zero-shot", 1_200, [None, 1_000, 2, 30]) == [
        "to detect 5 points between conditions with zero-shot with 80% power among 1,200 comparisons (Holm, p <= 4.2e-05): none "
        "(10%), 1,000 (20%), 2 (30%), 30 (50%) samples per cell, by the share of samples that end differently"
    ]


@pytest.mark.parametrize("fewest", [1, 2, 3, 4, 5, 63, 64, 65, 1_000])
def test_the_fewest_samples_are_found_by_bisection(fewest):
    assert room._search_fewest(lambda n: n >= fewest) == fewest


def test_no_number_of_samples_may_be_enough():
    assert room._search_fewest(lambda n: False) is None
    assert room.samples_for_effect(11, 0.1) is None, "more than all that differ"
    assert room.samples_for_effect(10, 0.1) is not None


def test_half_widths_are_half_of_the_interval():
    low, high = proportion_interval(25, 100)

    assert room.half_width(100, 0.25) == pytest.approx(50 * (high - low))
    n = room.samples_for_precision(5)
    assert room.half_width(n) <= 5 < room.half_width(n - 1)


def test_every_wish_has_its_lines_and_then_what_they_cost():
    policies = sweep(Path("nowhere"), ["oracle", "uniform", "guess"], ["zero-shot", "hint"], scenarios=["ROD", "QD"])
    few, many = room.samples_for_precision(10), room.samples_for_effect(20, 0.3, 6)
    precise = room.describe_sample_sizes(policies, 10, None, 8, "h200")
    detecting = room.describe_sample_sizes(policies, None, 20, 8, "h200")

    assert precise == [
        f"+-10 points at 95%: {few} samples per cell at 50% accuracy, fewer at any other; scenarios with fewer samples: "
        f"ROD 88 (+-{half_width(88):.1f})",
        f"{few} samples per cell: no model takes a GPU",
    ]
    assert [line.partition(" with 80% power among 6 comparisons")[0] for line in detecting] == [
        "to detect 20 points between conditions with zero-shot", "to detect 20 points between models under zero-shot",
        f"{many} samples per cell: no model takes a GPU",
    ]  # fmt: skip
    both = room.describe_sample_sizes(policies, 10, 20, 8, "h200")
    assert many < few and both == [precise[0], *detecting, precise[1]], "fewer samples first"
    assert room.describe_sample_sizes(policies, None, None, 8, "h200") == []
