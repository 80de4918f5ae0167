"""Replicates: planted variance components are found, keys of the first replicate stay, and all are played and shown."""

import numpy as np
import pytest

from actors.playing.prompts import apply_condition
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.measures.robustness import robustness, variance_components
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.evidence import robustness_table
from sweeps.load import SweepError
from tests.orchestrator.report.runs import play_sweep, sweep

MODELS = ["uniform", "first-option", "guess"]


@pytest.mark.parametrize(
    ("sample", "order", "orders", "seeds"), [(0.3, 0.2, 3, 2), (0.0, 0.0, 2, 3), (0.25, 0.0, 4, 2), (0.0, 0.35, 2, 2)]
)
def test_planted_variance_components_are_found(sample, order, orders, seeds):
    """Chances are 1/2 +- sample +- order, so the variances are sample^2 and order^2; the rest of 1/4 is the draw's."""
    rng, runs, n = np.random.default_rng(1), 60, 150
    components = np.zeros(3)
    for _ in range(runs):
        signs = rng.choice([-1, 1], (n, 1, 1)), rng.choice([-1, 1], (n, orders, 1))
        chances = 0.5 + sample * signs[0] + order * signs[1]
        components += variance_components((rng.random((n, orders, seeds)) < chances).astype(np.int64))
    expected = np.array([sample**2, order**2, 0.25 - sample**2 - order**2]) / 0.25

    assert components / runs == pytest.approx(expected, abs=0.03)


def test_one_seed_attributes_draw_to_order():
    rng = np.random.default_rng(2)
    sample, order, decoding = variance_components((rng.random((400, 5, 1)) < 0.5).astype(np.int64))

    assert decoding is None and order > 0.9 and sample < 0.1


def test_first_replicate_keeps_keys_of_plain_sweep(demo_data):
    alone, replicated = (
        build_plan(sweep(demo_data, MODELS, ["zero-shot", "hint"], **x)) for x in ({}, {"replicates": 3})
    )
    wider = build_plan(sweep(demo_data, MODELS, ["zero-shot", "hint"], replicates={"orders": 3, "seeds": 2}))
    keys = [set(plan.all_keys()) for plan in (alone, replicated, wider)]

    assert replicated.total == 3 * alone.total and wider.total == 6 * alone.total
    assert keys[0] < keys[1] < keys[2]


@pytest.fixture(scope="module")
def run(demo_data, tmp_path_factory):
    wanted = sweep(
        demo_data, MODELS, ["zero-shot"], scenarios=["ROD", "QD"], replicates={"orders": 2, "seeds": 2},
        selection={"limit": 8},
    )  # fmt: skip
    return play_sweep(tmp_path_factory.mktemp("replicates") / "run", wanted)


def test_report_shows_first_replicate_and_variance_of_all(run):
    run_data = read_run(run)
    rows = robustness(run_data)
    row = rows.filter(model="uniform", scenario="QD").row(0, named=True)

    assert set(run_data.rows["condition"]) == {"zero-shot"} and run_data.episodes.height == 3 * 2 * 8
    assert run_data.replicates.height == 3 * run_data.episodes.height
    assert (rows["orders"].unique().to_list(), rows["seeds"].unique().to_list(), row["n"]) == ([2], [2], 8)
    assert row["acc_first"] == run_data.rows.filter(model="uniform", scenario="QD")["acc"].item()
    assert row["least"] <= row["acc"] <= row["most"] and row["acc_low"] < row["acc"] < row["acc_high"]
    first = rows.filter(model="first-option", scenario="QD").row(0, named=True)
    assert first["var_decoding"] == 0, "it draws nothing"
    assert {name.text for name, *_ in robustness_table(run_data).rows} == set(MODELS)


def test_order_permutes_options_and_draw_changes_seed_only(run, demo_data):
    plan = build_plan(sweep(demo_data, MODELS, ["zero-shot"], scenarios=["QD"], replicates={"orders": 3, "seeds": 2}))
    conditions = {(c.condition.order, c.condition.draw): c.condition for c in plan.cells if c.model.name == "uniform"}
    sample = plan.samples["QD"][0]
    views = {key: apply_condition(sample, condition, plan.seed) for key, condition in conditions.items()}

    assert sorted(conditions) == [(order, draw) for order in range(3) for draw in range(2)]
    assert views[0, 0] == views[0, 1] == sample
    assert {frozenset(view.categories) for view in views.values()} == {frozenset(sample.categories)}
    others = [
        apply_condition(other_sample, conditions[2, 0], plan.seed).categories != other_sample.categories
        for other_sample in plan.samples["QD"]
    ]
    assert sum(others) > len(others) / 2
    seeds = {key: plan.episode_seed(sample, condition) for key, condition in conditions.items()}
    assert len(set(seeds.values())) == 2 and seeds[0, 0] == seeds[1, 0] != seeds[0, 1]


@pytest.mark.parametrize(
    ("table", "message"),
    [({"replicates": 0}, "replicates"), ({"replicates": {"order": 3}}, "did you mean 'replicates.orders'"),
     ({"replicates": 2, "protocol": "oeg"}, "multiple choice")],
)  # fmt: skip
def test_bad_replicates_are_refused(demo_data, table, message):
    with pytest.raises(SweepError, match=message):
        sweep(demo_data, MODELS, ["zero-shot"], **table)
