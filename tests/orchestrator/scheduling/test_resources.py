"""What each pool may take of a cluster: sensible for 1, 2, 4 and 8 GPUs, as the sweep says where it says so."""

import pytest

from orchestrator.scheduling.resources import demands, shares
from sweeps.load import build


def sweep(*models: str, judge: str = "qwen3-8b", **more):
    table = {"name": "test", "data": "d", "models": list(models), "protocol": "oeg", "judge": {"model": judge}, **more}
    return build(table, "a test")


@pytest.mark.parametrize(("gpus", "models"), [(2, 1), (4, 3), (8, 7), (16, 14), (64, 56)])
def test_the_judge_has_an_eighth_of_the_gpus_and_one_at_least(gpus, models):
    one = sweep("internvl3-8b")

    assert shares(one, gpus) == {"models": models}
    assert not demands(one, 32, gpus)["judge:qwen3-8b"].after


@pytest.mark.parametrize(("gpus", "model"), [(1, "internvl3-8b"), (2, "qwen2.5-vl-32b"), (4, "qwen2.5-vl-72b")])
def test_where_the_judge_cannot_stand_beside_the_models_it_reads_after_them(gpus, model):
    one = sweep(model)

    assert shares(one, gpus) == {}
    assert demands(one, 32, gpus)["judge:qwen3-8b"].after


def test_a_sweep_may_say_it_otherwise():
    one = sweep("internvl3-8b", cluster={"gpus": 4, "judge_gpus": 2})

    assert shares(one, 8) == {"models": 4, "judges": 2}
    assert shares(sweep("internvl3-8b", cluster={"judge_gpus": 3}), 8) == {"models": 5, "judges": 3}


@pytest.mark.parametrize("judge", ["rule-judge", "gpt-4.1"])
def test_rules_and_services_read_beside_everything_and_take_nothing(judge):
    one = sweep("internvl3-8b", judge=judge)
    demand = demands(one, 32, 1)[f"judge:{judge}"]

    assert shares(one, 1) == {} and (demand.cpus, demand.gpus, demand.after) == (0, 0, False)


def test_without_open_ended_cells_the_models_have_everything():
    one = sweep("internvl3-8b", protocol="mcqa")

    assert shares(one, 8) == {} and set(demands(one, 32, 8)) == {"internvl3-8b"}
    assert demands(one, 32, 8)["internvl3-8b"].judge == ""


def taken(model: str, cpus: float, gpus: int, **more):
    """(CPUs, GPUs, most replicas) of one model."""
    found = demands(sweep(model, protocol="mcqa", **more), cpus, gpus)[model if model != "uniform" else "builtin"]
    return found.cpus, found.gpus, found.replicas


def test_an_engine_takes_four_cpus_beside_each_gpu_as_far_as_there_are():
    beside = {cpus: taken("internvl3-8b", cpus, 8) for cpus in (0, 7, 8, 16, 32, 64)}

    assert beside == {cpus: (count, 1, 64) for cpus, count in ((0, 0), (7, 0), (8, 1), (16, 2), (32, 4), (64, 4))}
    assert taken("internvl3-8b", 3, 0) == (3, 1, 64)
    assert taken("qwen2.5-vl-72b", 8, 8)[0] == min(4, 8 * taken("qwen2.5-vl-72b", 8, 8)[1] // 8)
    assert taken("internvl3-8b", 32, 8, cluster={"workers": 3}) == (4, 1, 3)


def test_a_policy_takes_one_cpu_a_replica():
    assert [taken("uniform", cpus, 0) for cpus in (0.5, 1, 6)] == [(1, 0, 1), (1, 0, 1), (1, 0, 6)]
    assert taken("uniform", 6, 0, cluster={"workers": 2}) == (1, 0, 2)
