"""What each pool may take of a cluster: sensible for 1, 2, 4 and 8 GPUs, as the sweep says where it says so."""

import pytest

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import build


def sweep(*models: str | dict, judge: str | dict = "qwen3-8b", **more):
    judged = judge if isinstance(judge, dict) and "model" in judge else {"model": judge}
    table = {"name": "test", "data": "d", "models": list(models), "protocol": "oeg", "judge": judged, **more}
    return build(table, "a test")


@pytest.mark.parametrize(("gpus", "models"), [(2, 1), (4, 3), (8, 7), (16, 14), (64, 56)])
def test_the_judge_has_an_eighth_of_the_gpus_and_one_at_least(gpus, models):
    one = sweep("internvl3-8b")

    assert shares(one, gpus) == {"models": models}
    assert not demands(one, 32, gpus)["judge:qwen3-8b"].after_writers


@pytest.mark.parametrize(("gpus", "model"), [(1, "internvl3-8b"), (2, "qwen2.5-vl-32b"), (4, "qwen2.5-vl-72b")])
def test_where_the_judge_cannot_stand_beside_the_models_it_reads_after_them(gpus, model):
    one = sweep(model)

    assert shares(one, gpus) == {}
    assert demands(one, 32, gpus)["judge:qwen3-8b"].after_writers


def test_a_sweep_may_say_it_otherwise():
    one = sweep("internvl3-8b", cluster={"gpus": 4, "judge_gpus": 2})

    assert shares(one, 8) == {"models": 4, "judges": 2}
    assert shares(sweep("internvl3-8b", cluster={"judge_gpus": 3}), 8) == {"models": 5, "judges": 3}


@pytest.mark.parametrize("judge", ["rule-judge", "gpt-4.1"])
def test_rules_and_services_read_beside_everything_and_take_nothing(judge):
    one = sweep("internvl3-8b", judge=judge)
    demand = demands(one, 32, 1)[f"judge:{judge}"]

    assert shares(one, 1) == {} and (demand.cpus, demand.gpus, demand.after_writers) == (0, 0, False)


@pytest.mark.parametrize(("gpus", "serves"), [(1, 1), (2, 1), (8, 1), (16, 2), (64, 8)])
def test_a_judge_that_episodes_wait_for_stands_beside_them_in_its_eighth(gpus, serves):
    one = sweep("internvl3-8b", protocol="oeg-multi")
    demand = demands(one, 32, gpus)["judge:qwen3-8b"]

    assert shares(one, gpus) == {"models": gpus - serves} and (demand.standing_replicas, demand.after_writers) == (
        serves,
        False,
    )
    assert demands(one, 32, gpus)["internvl3-8b"].judge == "judge:qwen3-8b"
    few = sweep("internvl3-8b", protocol="oeg-multi", judge={"model": "qwen3-8b", "replicas": 1})
    assert demands(few, 32, 64)["judge:qwen3-8b"].standing_replicas == 1


def test_without_gpus_such_a_judge_takes_no_processor_from_those_who_wait_for_it():
    judge = {"name": "j", "source": "s", "gpus": 0}
    demand = demands(sweep("internvl3-8b", protocol="oeg-multi", judge=judge), 2, 0)["judge:j"]

    assert (demand.cpus, demand.gpus, demand.standing_replicas, demand.replicas) == (0, 0, 1, 1)


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


def test_a_service_needs_one_caller_and_an_engine_without_a_gpu_all_whole_cpus():
    engine = {"name": "x", "source": "a/b", "gpus": 0}

    assert demands(sweep("gpt-4.1", protocol="mcqa"), 6.7, 8) == {"gpt-4.1": Demand(0, 0, 1, concurrency=64)}
    on_cpus = [demands(sweep(engine, protocol="mcqa"), cpus, 0) for cpus in (0.5, 1, 6.7)]
    assert on_cpus == [{"x": Demand(cpus, 0, 1)} for cpus in (1, 1, 6)]
    by_transformers = {**engine, "backend": "transformers"}
    assert demands(sweep(by_transformers, protocol="mcqa"), 6, 0) == {"x": Demand(1, 0, 6)}


@pytest.mark.parametrize(
    ("judge", "demand"),
    [
        ("rule-judge", Demand(0, 0, 1, 64, pool="judges")),
        ("gpt-4.1", Demand(0, 0, 1, 64, pool="judges")),
        ("qwen3-8b", Demand(4, 1, 64, 384, pool="judges")),
    ],
)
def test_a_judges_replicas_take_what_a_models_do_of_their_own_pool_and_rules_take_nothing(judge, demand):
    assert demands(sweep("internvl3-8b", judge=judge), 32, 8) == {
        "internvl3-8b": Demand(4, 1, 64, 384, judge=f"judge:{judge}"),
        f"judge:{judge}": demand,
    }


@pytest.mark.parametrize(("asked", "gpus", "kept"), [(5, 8, 4), (3, 8, 2), (None, 8, 2), (None, 32, 4), (None, 40, 4)])
def test_what_is_kept_for_a_judge_of_two_gpus_is_a_multiple_of_two(asked, gpus, kept):
    """5 GPUs that the sweep gives hold two replicas; of 40 an eighth is 5, which holds two as well."""
    wide = {"name": "j", "source": "a/b", "gpus": 2}
    one = sweep("internvl3-8b", judge=wide, cluster={"judge_gpus": asked} if asked else {})

    assert shares(one, gpus)["models"] == gpus - kept
