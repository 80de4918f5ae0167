"""Shares of each pool in a cluster: sensible defaults for 1, 2, 4 and 8 GPUs, and the sweep's own settings."""

import pytest

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import build


def sweep(*models: str | dict, judge: str | dict = "qwen3-8b", **options):
    judged = judge if isinstance(judge, dict) and "model" in judge else {"model": judge}
    table = {"name": "test", "data": "d", "models": list(models), "protocol": "oeg", "judge": judged, **options}
    return build(table, "a test")


@pytest.mark.parametrize(("gpus", "models"), [(2, 1), (4, 3), (8, 7), (16, 14), (64, 56)])
def test_the_judge_has_an_eighth_of_the_gpus_and_one_at_least(gpus, models):
    spec = sweep("internvl3-8b")

    assert shares(spec, gpus) == {"models": models}
    assert not demands(spec, 32, gpus)["judge:qwen3-8b"].after_writers


@pytest.mark.parametrize(("gpus", "model"), [(1, "internvl3-8b"), (2, "qwen2.5-vl-32b"), (4, "qwen2.5-vl-72b")])
def test_judge_without_room_beside_models_reads_after_them(gpus, model):
    spec = sweep(model)

    assert shares(spec, gpus) == {}
    assert demands(spec, 32, gpus)["judge:qwen3-8b"].after_writers


@pytest.mark.parametrize("judge", ["rule-judge", "gpt-4.1"])
def test_rule_and_service_judges_take_no_resources(judge):
    spec = sweep("internvl3-8b", judge=judge)
    demand = demands(spec, 32, 1)[f"judge:{judge}"]

    assert shares(spec, 1) == {} and (demand.cpus, demand.gpus, demand.after_writers) == (0, 0, False)


@pytest.mark.parametrize(("gpus", "serves"), [(1, 1), (2, 1), (8, 1), (16, 2), (64, 8)])
def test_turn_judge_stands_in_its_eighth_of_gpus(gpus, serves):
    spec = sweep("internvl3-8b", protocol="oeg-multi")
    demand = demands(spec, 32, gpus)["judge:qwen3-8b"]

    assert shares(spec, gpus) == {"models": gpus - serves}
    assert demand.standing_replicas == serves and not demand.after_writers
    assert demands(spec, 32, gpus)["internvl3-8b"].judge == "judge:qwen3-8b"
    few = sweep("internvl3-8b", protocol="oeg-multi", judge={"model": "qwen3-8b", "replicas": 1})
    assert demands(few, 32, 64)["judge:qwen3-8b"].standing_replicas == 1


def model_resources(model: str, cpus: float, gpus: int, **options):
    """Return (CPUs, GPUs, maximum replicas) of one model."""
    demand = demands(sweep(model, protocol="mcqa", **options), cpus, gpus)[model if model != "uniform" else "builtin"]
    return demand.cpus, demand.gpus, demand.replicas


def test_engine_takes_up_to_four_cpus_per_gpu():
    beside = {cpus: model_resources("internvl3-8b", cpus, 8) for cpus in (0, 7, 8, 16, 32, 64)}

    assert beside == {cpus: (count, 1, 64) for cpus, count in ((0, 0), (7, 0), (8, 1), (16, 2), (32, 4), (64, 4))}
    assert model_resources("internvl3-8b", 3, 0) == (3, 1, 64)
    assert model_resources("qwen2.5-vl-72b", 8, 8)[0] == min(4, 8 * model_resources("qwen2.5-vl-72b", 8, 8)[1] // 8)
    assert model_resources("internvl3-8b", 32, 8, cluster={"workers": 3}) == (4, 1, 3)


def test_engine_takes_no_more_cpus_than_the_node_with_the_fewest_has():
    """A head without GPUs has CPUs, too, and engines waited for ever for them on nodes with fewer."""
    spec, wide = sweep("internvl3-8b", protocol="mcqa"), sweep("qwen2.5-vl-72b", protocol="mcqa")
    small, large = Node("small", 1, cpus=1), Node("large", 8, cpus=64)

    assert demands(spec, 65, 8, [large])["internvl3-8b"].cpus == 4
    assert demands(spec, 66, 9, [large, small])["internvl3-8b"].cpus == 1
    assert demands(spec, 3, 1, [small])["internvl3-8b"].cpus == 1, "the head's two are elsewhere"
    assert demands(spec, 3, 0, [small])["internvl3-8b"].cpus == 1, "others hold its GPU"
    assert demands(wide, 64, 8, [Node("few", 8, cpus=4)])["qwen2.5-vl-72b"].cpus == 2
    judge = {"model": {"name": "j", "source": "a/b", "gpus": 1}}
    assert demands(sweep("internvl3-8b", judge=judge), 66, 9, [large, small])["judge:j"].cpus == 1
    assert demands(sweep("uniform", protocol="mcqa"), 6, 1, [small])["builtin"].replicas == 6


def test_service_takes_one_caller_and_cpu_engine_all_cpus():
    engine = {"name": "x", "source": "a/b", "gpus": 0}

    assert demands(sweep("gpt-4.1", protocol="mcqa"), 6.7, 8) == {"gpt-4.1": Demand(0, 0, 1, concurrency=64)}
    on_cpus = [demands(sweep(engine, protocol="mcqa"), cpus, 0) for cpus in (0.5, 1, 6.7)]
    assert on_cpus == [{"x": Demand(cpus, 0, 1)} for cpus in (1, 1, 6)]
    by_transformers = {**engine, "backend": "transformers"}
    assert demands(sweep(by_transformers, protocol="mcqa"), 6, 0) == {"x": Demand(1, 0, 6)}
