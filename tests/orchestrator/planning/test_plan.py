"""A plan numbers cells x samples, and a key depends on everything that changes an answer and nothing else."""

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from orchestrator.planning.build_plan import build_plan, cells_with_progress, planned_cells, stored_episodes
from orchestrator.planning.plan import Plan, make_plan
from sweeps.load import build
from sweeps.spec import Protocol
from tests.envs.games import SAMPLES
from tests.orchestrator.report import runs

SIZES = {"ROD": 3, "MVP-N": 2}
SCENARIOS_DRAWN = ["ROD", "MVP-N", "CIT"]


def sweep(**options):
    table = {"name": "test", "data": "nowhere", "models": ["uniform", "guess"], "scenarios": list(SIZES), **options}
    return build({"conditions": ["zero-shot", "hint"], **table}, "a test")


def samples(sizes=SIZES, digest="d"):
    return {
        name: [replace(SAMPLES[name], id=number, digest=f"{digest}{number}") for number in range(10, 10 + size)]
        for name, size in sizes.items()
    }


def small_plan(pools=None, played=None, **options) -> Plan:
    played = played or samples()
    return make_plan(sweep(**options), {Protocol.MCQA: played}, played if pools is None else pools)


def test_single_and_bulk_keys_are_equal():
    plan = small_plan()
    keys = list(plan.all_keys())

    assert keys == [plan.key(*plan.task(ordinal)) for ordinal in range(plan.total)]
    assert len(set(keys)) == plan.total
    assert list(plan.keys(1)) == keys[plan.offsets[1] : plan.offsets[2]]
    for ordinal, key in enumerate(keys):
        index, sample = plan.task(ordinal)
        cell, name = plan.cells[index], f"{sample.id:04d}-"
        assert key.startswith(f"{cell.key}/{name}") and len(key) == len(f"{cell.key}/{name}") + 8


def keys_of(plan, condition):
    """Return the condition's keys, ordered by model, scenario and sample."""
    wanted = [index for index, cell in enumerate(plan.cells) if cell.condition.name == condition]
    return [key for index in wanted for key in plan.keys(index)]


@pytest.mark.parametrize(("condition", "changes"), [("icl-1", True), ("zero-shot", False), ("hint", False)])
def test_example_pool_changes_keys_only_where_examples_are_shown(condition, changes):
    options = {"scenarios": ["MVP-N"], "conditions": ["zero-shot", "hint", "icl-1"]}
    played = samples({"MVP-N": 2})
    first, second = (small_plan(samples({"MVP-N": 5}, digest), played, **options) for digest in ("d", "e"))

    assert (keys_of(first, condition) != keys_of(second, condition)) is changes
    assert not changes or not set(keys_of(first, condition)) & set(keys_of(second, condition))


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"sampling": {"temperature": 0.5}}, {"played": samples(digest="e")}],
    ids=["seed", "sampling", "content of a sample"],
)
def test_what_changes_an_answer_changes_every_key(change):
    assert not set(small_plan().all_keys()) & set(small_plan(**change).all_keys())


def test_what_changes_no_answer_changes_no_key():
    assert list(small_plan().all_keys()) == list(small_plan(cluster={"gpus": 4, "workers": 7}).all_keys())
    assert set(small_plan(models=["guess"]).all_keys()) < set(small_plan().all_keys())
    fewer = small_plan(played=samples({"ROD": 1, "MVP-N": 1}), pools=samples())
    assert set(fewer.all_keys()) < set(small_plan().all_keys())


@pytest.mark.parametrize("seed", range(12))
def test_pending_of_any_stored_keys_is_the_full_queue_without_them(seed):
    """Cells stored wholly, in part and not at all, keys of other contents, plans and forms, and keys that occur twice."""
    chance = random.Random(seed)
    drawn = {name: chance.randint(1, 30) for name in chance.sample(SCENARIOS_DRAWN, chance.randint(1, 3))}
    options = {"models": ["uniform", "guess", "internvl3-8b"], "scenarios": list(drawn), "seed": seed}
    if seed % 3 == 0:
        options["precision"] = {"half_width": 5}
    plan = small_plan(played=samples(drawn), **options)
    stops = {
        n: chance.randint(0, plan.size(n)) for n in range(len(plan.cells)) if seed % 3 == 0 and chance.random() < 0.5
    }
    plan = plan.with_stops(stops)
    stored = ["", "no key", "uniform/ROD/zero-shot/", *small_plan(played=samples(drawn, "other"), **options).all_keys()]
    for index in range(len(plan.cells)):
        share = chance.choice([0.0, 0.0, 1.0, 0.5, 0.1])
        stored += [key for key in plan.keys(index) if chance.random() < share]
    stored += chance.sample(stored, len(stored) // 4)
    chance.shuffle(stored)
    key_of = dict(enumerate(plan.with_stops({}).all_keys()))
    missing = {
        name: [ordinal for ordinal in queue if key_of[ordinal] not in set(stored)]
        for name, queue in plan.pending(()).items()
    }

    expected = {name: queue for name, queue in missing.items() if queue}
    assert plan.pending(stored) == plan.pending(pl.Series("key", stored)) == expected
    assert list(plan.pending(stored)) == list(expected)


def test_each_protocol_plays_its_own_samples():
    choice, free = samples(), samples({"ROD": 1, "MVP-N": 1}, "o")
    wanted = sweep(protocols=["mcqa", "oeg"], models=["internvl3-8b"], judge={"model": "qwen3-8b"})
    plan = make_plan(wanted, {Protocol.MCQA: choice, Protocol.OEG: free}, choice)
    counts = {(cell.protocol, cell.scenario): len(plan.cell_samples(cell)) for cell in plan.cells}

    assert counts == {("mcqa", "ROD"): 3, ("mcqa", "MVP-N"): 2, ("oeg", "ROD"): 1, ("oeg", "MVP-N"): 1}
    assert plan.samples_by_id == {
        name: {sample.id: sample for sample in (*choice[name], *free[name])} for name in SIZES
    }  # fmt: skip
    assert len(set(plan.all_keys())) == plan.total == 14
    queue = plan.pending(())["internvl3-8b"]
    assert sorted(queue) == list(range(14))


def test_keys_are_pinned():
    """A run resumes by its keys: if one of these changes, every stored episode is played again."""
    plan = small_plan(models=["uniform"], conditions=["zero-shot", "icl-1", "random-proactive"], scenarios=["MVP-N"])
    assert [next(plan.keys(index)) for index in range(3)] == [
        "uniform/MVP-N/zero-shot/0010-6a7dd1b7",
        "uniform/MVP-N/icl-1/0010-9e826d4b",
        "uniform/MVP-N/random-proactive/0010-6aa84984",
    ]


def test_suggestion_pool_changes_random_proactive_keys_only():
    """Samples of a scenario share one suggestion table, so the first sample's table counts, in any order of its rows."""
    played = samples({"MVP-N": 2})
    pool = {"a": ("one", "two"), "b": ("three",)}

    def keys(condition, *tables):
        pairs = zip(played["MVP-N"], tables, strict=False)
        own = {"MVP-N": [replace(sample, suggestion_pool=table) for sample, table in pairs]}
        names = {"scenarios": ["MVP-N"], "models": ["uniform"], "conditions": [condition]}
        return keys_of(small_plan(own, own, **names), condition)

    changed_pool = {"a": ("one",), "b": ("three",)}
    assert keys("random-proactive", pool, pool) == keys("random-proactive", dict(reversed(pool.items())), pool)
    assert not set(keys("random-proactive", pool, pool)) & set(keys("random-proactive", changed_pool, pool))
    assert keys("random-proactive", pool, pool) == keys("random-proactive", pool, changed_pool)
    assert keys("random-proactive", pool, pool)[:1] == keys("random-proactive", pool)
    assert keys("zero-shot", pool, pool) == keys("zero-shot", changed_pool, pool)


@pytest.mark.parametrize("rule", [{}, {"precision": {"half_width": 1.0}}])
@pytest.mark.parametrize("protocol", ["mcqa", "oeg"])
def test_cells_are_played_in_a_drawn_order(rule, protocol):
    """A stopped run has a random sample of a cell, whatever the order of its file, and the same one of every condition."""
    played = samples({"ROD": 200})
    judge = {"judge": {"model": "qwen3-8b"}} if protocol == "oeg" else {}
    names = {"models": ["internvl3-8b"], "scenarios": ["ROD"], "protocol": protocol}
    wanted = sweep(**names, **(judge or rule))
    plan = make_plan(wanted, {Protocol(protocol): played}, played)
    (queue,) = plan.pending(()).values()
    ids = [plan.task(ordinal)[1].id for ordinal in queue]
    conditions = len(plan.cells)

    assert ids == [number for number in ids[::conditions] for _ in range(conditions)]
    first_half = np.array(ids[: len(ids) // 2 : conditions]) - 10
    assert 40 <= (first_half < 100).sum() <= 60 and abs(first_half.mean() - 99.5) < 15
    keys = set(plan.all_keys())
    assert {plan.key(*plan.task(ordinal)) for ordinal in queue} == keys


def test_judge_changes_keys_only_where_it_reads_between_turns(demo_data):
    def keys(protocol, attempts):
        judge = {"model": "rule-judge", "attempts": attempts}
        table = {
            "data": str(demo_data),
            "models": ["oracle"],
            "scenarios": ["QD"],
            "protocol": protocol,
            "judge": judge,
        }
        return set(build_plan(build(table, "test.toml")).all_keys())

    assert keys("oeg-multi", 2).isdisjoint(keys("oeg-multi", 3))
    assert keys("oeg", 2) == keys("oeg", 3)


def test_rows_of_a_plan_count_up_to_the_stops_and_those_of_the_full_set(demo_data, tmp_path):
    spec = runs.sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["QD", "ROD"])
    plan = build_plan(spec)
    names = {"model": "oracle", "condition": "zero-shot", "protocol": "mcqa", "planned": 10}
    cells = [{"cell": f"oracle/{name}/zero-shot", "scenario": name, **names} for name in ("QD", "ROD")]
    assert planned_cells(plan) == cells
    rule = {"scenarios": ["QD", "ROD"], "precision": {"half_width": 9}}
    ruled = build_plan(runs.sweep(demo_data, ["oracle"], ["zero-shot"], **rule))
    stopped = ruled.with_stops({1: 4})
    assert [(row["planned"], row["full"]) for row in planned_cells(stopped)] == [(10, 10), (4, 10)]
    assert stopped.total_with_stops == 14 < stopped.total == 20
    assert len(stored_episodes(plan, runs.play_sweep(tmp_path, spec, only=7)).collect()) == 7
    assert sum(row["done"] for row in cells_with_progress(plan, tmp_path)) == 7
    assert stored_episodes(plan, tmp_path, "another").collect().height == 0
