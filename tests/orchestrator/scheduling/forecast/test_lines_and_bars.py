"""The printed lines of a forecast, bounds of replicas, and bars of a timeline, on runs that are written out."""

from dataclasses import replace

import pytest

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast import forecast as forecasts
from orchestrator.scheduling.forecast import timeline
from orchestrator.scheduling.forecast.forecast import Forecast
from orchestrator.scheduling.forecast.lower_bound import Bound, Work, cap_replicas
from orchestrator.scheduling.forecast.simulator import SimulatedSweep, WorkerSpan
from orchestrator.scheduling.forecast.throughput import Rate
from orchestrator.scheduling.forecast.timeline import Bar, layout_bars
from orchestrator.scheduling.forecast.workload import PendingWork
from orchestrator.scheduling.nodes import Node, Place
from sweeps.load import build_judge
from sweeps.spec import ModelSpec

SPANS = [
    WorkerSpan(1, "a", Place("n"), 2, 0.0, 60.0, 3_600.0),
    WorkerSpan(2, "b", Place("n"), 0.5, 1_800.0, None, 5_400.0),
]
RUN = SimulatedSweep(7_200.0, SPANS, Bound(1.0, 6_000.0, 2.0), 12_345, 0, 0, 0, {})
RATES = {
    "a": Rate(1.0, 60.0, "measured"),
    "b": Rate(12.345, 60.0, "reckoned", front_end=True),
    "c": Rate(1, 1, "reckoned"),
}


def outlook(**changes) -> Forecast:
    fields = {"rates": RATES, "without_gpu": [], "simulated": RUN, "pending": PendingWork({"s": 1_500}, {})}
    return Forecast(4, "h200", [Node("n", 4)], **{**fields, **changes})


def test_a_forecast_prints_hours_bound_and_gpu_hours():
    assert outlook().lines() == [
        "12,345 episodes of 3 models on 4 H200",
        "makespan     2.00 h",
        "lower bound  1.67 h (makespan is 1.200 times that)",
        "GPU-hours    8.0 reserved, 2.5 in use, 2 worker starts",
        "rates measured: a",
        "rates reckoned: b, c",
        "limited by one front end per worker, not by the GPU: b (12 episodes/s)",
    ]
    assert outlook(makespans=[3_600.0, 9_000.0]).lines(2.5)[1:5] == [
        "makespan     2.00 h (1.0 to 2.5 h in 2 simulations with random errors in the rates)",
        "lower bound  1.67 h (makespan is 1.200 times that)",
        "GPU-hours    8.0 reserved, 2.5 in use, 2 worker starts",
        "cost         20.00 at 2.5 per GPU-hour, all GPUs reserved to the end",
    ]


def test_a_forecast_names_what_it_leaves_out():
    given_up = replace(RUN, abandoned={"a": "a needs 8 GPUs"}, verdicts=1_000, bound=Bound(0.0, 0.0, 0.0))
    service = ModelSpec(name="s", source="x", backend="openai")
    policies = [ModelSpec(name=name, source="builtin:x", backend="builtin") for name in ("p", "q")]
    rates = {"a": RATES["a"], "judge:j": RATES["c"], "c": RATES["c"]}
    pending = PendingWork({"s": 1_500, "builtin": 10}, {"c": 3})
    lines = outlook(
        simulated=given_up, rates=rates, without_gpu=[service, *policies], pending=pending, serving="judge:j"
    ).lines()
    assert lines[0] == "12,345 episodes and 1,000 verdicts of 1 model on 4 H200"
    assert lines[2] == "lower bound  0.00 h (every model was given up)"
    assert lines[4:] == [
        "rates measured: a", "rates reckoned: judge:j, c",
        "judge:j reads turn by turn on GPUs reserved for it; the time episodes wait for it is not counted",
        "left out: a needs 8 GPUs",
        "not simulated, without GPU: s, p, q (1,510 episodes); a service or a CPU sets their rate",
        "assumed length where no run measured it: 150 tokens per open-ended answer, 1,000 per verdict",
    ]  # fmt: skip
    alone = outlook(without_gpu=[service], pending=PendingWork({}, {}, unread=1)).lines()
    assert alone[-2:] == ["not simulated, without GPU: s; a service or a CPU sets their rate", lines[-1]]


def test_answers_are_spaced_evenly_among_a_groups_episodes_and_services_are_read_from_the_start():
    judge = build_judge({"model": {"name": "j", "source": "s", "gpus": 1}}, "a test")
    service = ModelSpec(name="s", source="x", backend="openai")
    pending = PendingWork({"a": 6}, {"a": 3, "s": 2, "b": 1}, unread=4)
    queues, reads = forecasts._number_work(pending, ["a", "b", "none"], judge, [service])
    assert queues == {"a": list(range(9)), "b": [9], "judge:j": [14, 15, 16, 17, 18, 19]}
    assert reads == {0: 10, 3: 11, 6: 12, 9: 13}
    assert forecasts._number_work(pending, ["a"], None, []) == ({"a": list(range(9))}, {})


def test_only_groups_with_a_rate_are_simulated_and_a_judge_without_one_is_not_waited_for():
    groups = {"a": Demand(judge="j"), "j": Demand(), "b": Demand(judge="k")}
    rates = {"a": Rate(2.0, 30.0, "measured"), "b": Rate(3.0, 40.0, "measured")}
    assert forecasts._set_rates(groups, rates) == {"a": Demand(rate=2.0, start=30.0), "b": Demand(rate=3.0, start=40.0)}
    assert forecasts._set_rates(groups, {**rates, "j": rates["b"]})["a"].judge == "j"


def test_errors_of_rates_are_as_large_as_their_source_suggests():
    assert forecasts.RATE_ERRORS == {"measured": (0.1, 0.0), "reckoned": (0.5, 0.3), "guessed": (0.7, 0.3)}
    work = Work(10, 1, 2.0, 30.0)
    spread = {}
    for source in forecasts.RATE_ERRORS:
        wrong = [forecasts._perturb(work, Rate(2.0, 30.0, source), "m", seed) for seed in range(60)]
        assert len({each.rate for each in wrong}) == 60 and all(each.episodes == 10 for each in wrong)
        spread[source] = max(each.rate for each in wrong) / min(each.rate for each in wrong)
    assert 1.2 < spread["measured"] < 2 < 6 < spread["reckoned"] < spread["guessed"]
    one, two = (forecasts._perturb(work, Rate(2.0, 30.0, "measured"), name, 0) for name in ("m", "n"))
    assert one.rate != two.rate and one.start != two.start != 30.0


def test_a_work_has_the_phases_of_its_start_scaled_to_its_length():
    phases = StartPhases(5.0, 10.0, 40.0, 20.0)
    rate = Rate(2.0, 30.0, "reckoned", phases=phases, weights=7.0)
    assert forecasts._work(Demand(gpus=2, concurrency=3), 9, rate) == Work(
        9, 2, 2.0, 30.0, 3, phases=phases, weights=7.0
    )
    slow = Work(9, 2, 2.0, 60.0).with_phases(phases, 7.0)
    assert (slow.phases.read, slow.phases.warm, slow.node_start, slow.weights) == (20.0, 40.0, slow.phases.compile, 7.0)
    assert (
        Work(9, 2, 2.0, 60.0).with_phases(StartPhases(), 7.0) == Work(9, 2, 2.0, 60.0)
        and Work(1, 1, 1.0, 1.0).node_start == 0
    )
    assert Work(9, 2, 2.0, 60.0).replica_seconds == 4.5


@pytest.mark.parametrize(
    ("demand", "gpus", "shares", "replicas", "per_node"),
    [
        (Demand(replicas=64), 1, {}, 20, 8), (Demand(replicas=5), 1, {}, 5, 8), (Demand(), 3, {}, 5, 2),
        (Demand(), 0.5, {}, 40, 16), (Demand(), 1, {"models": 6}, 6, 8), (Demand(), 4, {"models": 6}, 1, 2),
        (Demand(), 4, {"judges": 6}, 5, 2), (Demand(pool="judges"), 1, {"judges": 2}, 2, 8),
        (Demand(accelerator="A100"), 1, {}, 4, 4), (Demand(accelerator="B200"), 1, {}, 1, 1),
        (Demand(stages=2), 16, {}, 1, 1), (Demand(stages=2), 8, {}, 2, 1), (Demand(), 0, {}, 64, 1_000_000),
    ],
)  # fmt: skip
def test_replicas_are_bound_by_demand_nodes_and_share(demand, gpus, shares, replicas, per_node):
    nodes = [Node("a", 8, "H200"), Node("b", 8, "H200"), Node("c", 4, "A100")]
    capped = cap_replicas(Work(1, gpus, 1.0, 1.0), 7, demand, nodes, shares)
    assert (capped.episodes, capped.replicas, capped.per_node) == (7, replicas, per_node)


# -- bars --------------------------------------------------------------------------------------------------------------
def span(slot, began, ended, gpus=1.0, node="n", shared=None, stages=()):
    return WorkerSpan(slot, f"g{slot}", Place(node, shared, stages), gpus, began, began, ended)


NODES = [Node("m", 2), Node("n", 3)]


def rows(*spans):
    return {bar.span.slot: bar.rows for bar in layout_bars(spans, NODES)}


def test_a_worker_takes_adjacent_rows_of_its_node_and_gives_them_back():
    assert rows(span(1, 0, 9), span(2, 0, 5), span(3, 5, 9, 2), span(4, 1, 2, node="m")) == {
        1: (2,),
        2: (3,),
        3: (3, 4),
        4: (0,),
    }
    assert rows(span(1, 0, 9, 0)) == {}
    assert rows(span(1, 0, 2), span(2, 0, 9), span(3, 0, 2), span(4, 2, 3, 2)) == {1: (2,), 2: (3,), 3: (4,), 4: (2, 4)}
    staged = span(1, 0, 9, 4, node="m", stages=("m", "n"))
    assert rows(staged, span(2, 0, 9)) == {1: (0, 1, 2, 3), 2: (4,)}
    with pytest.raises(ValueError, match=r"^n has 1 GPUs free, g2 takes 2$"):
        rows(span(1, 0, 9, 2), span(2, 8, 9, 2))


def test_workers_of_a_shared_gpu_take_its_quarters_until_the_last_one_ends():
    half = {"gpus": 0.5, "shared": 1}
    bars = layout_bars(
        [span(1, 0, 4, **half), span(2, 1, 9, 0.25, shared=1), span(3, 4, 8, **half), span(4, 5, 6)], NODES
    )
    assert {bar.span.slot: (bar.rows, bar.quarters) for bar in bars} == {
        1: ((2,), (0, 1)), 2: ((2,), (2,)), 3: ((2,), (0, 1)), 4: ((3,), ()),
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^a shared GPU of n has no room for g2, which needs 0\.75 of it$"):
        layout_bars([span(1, 0, 4, **half), span(2, 1, 9, 0.75, shared=1)], NODES)


def test_bars_reach_from_half_a_row_above_to_half_below():
    assert timeline._runs((0, 1, 3, 5, 6)) == [(0, 1), (3, 3), (5, 6)] and timeline._runs(()) == []
    assert timeline._heights(Bar(span(1, 0, 1), (2, 3, 5))) == [(1.5, 3.5), (4.5, 5.5)]
    assert timeline._heights(Bar(span(1, 0, 1), (2,), (0, 1, 3))) == [(1.5, 2.0), (2.25, 2.5)]


def test_names_are_black_on_light_colors_and_white_on_dark_ones():
    """A gray of 117 of 255 has a luminance of 0.178, one of 118 of 0.181."""
    assert {timeline._ink(color) for color in ("#ffffff", "#00ff00", "#ff0000", "#767676")} == {"black"}
    assert {timeline._ink(color) for color in ("#000000", "#0000ff", "#757575")} == {"white"}
