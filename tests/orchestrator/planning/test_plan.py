"""A plan numbers cells x samples, and a key holds all that changes an answer and nothing else."""

from collections import Counter
from dataclasses import replace

import pytest

from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan, judge_group, make_plan, worker_group
from sweeps.load import build
from sweeps.spec import Protocol
from tests.envs.games import SAMPLES

SIZES = {"ROD": 3, "MVP-N": 2}


def sweep(**more):
    table = {"name": "test", "data": "nowhere", "models": ["uniform", "guess"], "scenarios": list(SIZES), **more}
    return build({"conditions": ["zero-shot", "hint"], **table}, "a test")


def samples(sizes=SIZES, digest="d"):
    return {
        name: [replace(SAMPLES[name], id=number, digest=f"{digest}{number}") for number in range(10, 10 + size)]
        for name, size in sizes.items()
    }


def made(pools=None, played=None, **more) -> Plan:
    played = played or samples()
    return make_plan(sweep(**more), {Protocol.MCQA: played}, played if pools is None else pools)


def test_ordinals_count_cells_and_in_each_its_samples():
    plan = made()
    sizes = [SIZES[cell.scenario] for cell in plan.cells]

    assert plan.total == sum(sizes) == 20 and len(plan.cells) == 8
    assert plan.offsets == [sum(sizes[:index]) for index in range(9)]
    numbered = [
        (index, sample.id) for index, size in enumerate(sizes) for sample in plan.cell_samples(plan.cells[index])[:size]
    ]
    assert [(index, sample.id) for index, sample in map(plan.task, range(plan.total))] == numbered


def test_keys_are_the_same_one_by_one_and_all_together():
    plan = made()
    keys = list(plan.all_keys())

    assert keys == [plan.key(*plan.task(ordinal)) for ordinal in range(plan.total)]
    assert len(set(keys)) == plan.total
    assert list(plan.keys(1)) == keys[plan.offsets[1] : plan.offsets[2]]
    for ordinal, key in enumerate(keys):
        index, sample = plan.task(ordinal)
        cell, name = plan.cells[index], f"{sample.id:04d}-"
        assert key.startswith(f"{cell.key}/{name}") and len(key) == len(f"{cell.key}/{name}") + 8


def keys_of(plan, condition):
    """Condition's keys by model, scenario and sample."""
    wanted = [index for index, cell in enumerate(plan.cells) if cell.condition.name == condition]
    return [key for index in wanted for key in plan.keys(index)]


@pytest.mark.parametrize(("condition", "changes"), [("icl-1", True), ("zero-shot", False), ("hint", False)])
def test_the_pool_of_examples_is_in_the_key_where_examples_are_shown_and_only_there(condition, changes):
    shown = {"scenarios": ["MVP-N"], "conditions": ["zero-shot", "hint", "icl-1"]}
    played = samples({"MVP-N": 2})
    one, other = (made(samples({"MVP-N": 5}, digest), played, **shown) for digest in ("d", "e"))

    assert (keys_of(one, condition) != keys_of(other, condition)) is changes
    assert not changes or not set(keys_of(one, condition)) & set(keys_of(other, condition))


def test_the_pool_is_that_of_the_cells_own_scenario():
    shown = {"conditions": ["icl-1"]}
    whole = samples()
    other = {**whole, "ROD": samples(digest="e")["ROD"]}
    one, two = made(whole, **shown), made(other, **shown)

    same = [cell.scenario for index, cell in enumerate(one.cells) if list(one.keys(index)) == list(two.keys(index))]
    assert same == ["MVP-N"] * 2


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"sampling": {"temperature": 0.5}}, {"played": samples(digest="e")}],
    ids=["seed", "sampling", "content of a sample"],
)
def test_what_changes_an_answer_changes_every_key(change):
    assert not set(made().all_keys()) & set(made(**change).all_keys())


def test_what_changes_no_answer_changes_no_key():
    assert list(made().all_keys()) == list(made(cluster={"gpus": 4, "workers": 7}).all_keys())
    assert set(made(models=["guess"]).all_keys()) < set(made().all_keys())
    assert set(made(played=samples({"ROD": 1, "MVP-N": 1}), pools=samples()).all_keys()) < set(made().all_keys())


def test_two_ordinals_are_together_if_they_are_one_samples_under_two_conditions():
    plan = made(models=["uniform"], scenarios=["ROD"])

    assert plan.total == 6
    assert [[plan.share_sample(one, other) for other in range(6)] for one in range(6)] == [
        [one % 3 == other % 3 for other in range(6)] for one in range(6)
    ]


def test_conditions_of_a_sample_are_side_by_side_in_their_groups_queue():
    plan = made(models=["uniform"])
    queue = plan.pending(())

    assert list(queue) == ["builtin"]
    assert sorted(queue["builtin"]) == list(range(plan.total))
    pairs = list(zip(queue["builtin"][::2], queue["builtin"][1::2], strict=True))
    assert all(plan.share_sample(*pair) and pair[0] < pair[1] for pair in pairs)


def test_pending_is_the_plan_less_what_is_finished():
    plan = made()
    keys = list(plan.all_keys())
    finished = {keys[ordinal] for ordinal in (0, 4, 19)} | {"of another run"}

    assert sorted(plan.pending(finished)["builtin"]) == [n for n in range(20) if n not in (0, 4, 19)]
    pending = plan.pending(finished)
    assert plan.pending_per_cell(pending) == Counter(plan.task(ordinal)[0] for ordinal in pending["builtin"])
    assert plan.pending(()) == plan.pending({"an episode of another plan"})
    assert plan.pending(set(keys)) == {}


def test_each_model_has_its_own_group_and_all_policies_share_one():
    mine = sweep(models=["uniform", "internvl3-8b"], protocol="oeg", judge={"model": "qwen3-8b"})
    names = {model.name: worker_group(model) for model in mine.models}

    assert names == {"uniform": "builtin", "internvl3-8b": "internvl3-8b"}
    assert judge_group(mine.judge) == "judge:qwen3-8b"
    both = made(models=["uniform", "internvl3-8b"]).pending(())
    assert {name: len(queue) for name, queue in both.items()} == {"builtin": 10, "internvl3-8b": 10}


def test_an_episodes_seed_is_one_for_all_models_and_conditions_and_another_for_another_sweep():
    plan, sample = made(), samples()["ROD"][0]

    assert plan.episode_seed(sample) == made(models=["guess"], conditions=["hint"]).episode_seed(sample)
    assert plan.episode_seed(sample) != made(seed=1).episode_seed(sample)
    assert len({plan.episode_seed(each) for found in samples().values() for each in found}) == 5


def test_each_protocol_plays_its_own_samples():
    choice, free = samples(), samples({"ROD": 1, "MVP-N": 1}, "o")
    wanted = sweep(protocols=["mcqa", "oeg"], models=["internvl3-8b"], judge={"model": "qwen3-8b"})
    plan = make_plan(wanted, {Protocol.MCQA: choice, Protocol.OEG: free}, choice)
    drawn = {(cell.protocol, cell.scenario): len(plan.cell_samples(cell)) for cell in plan.cells}

    assert drawn == {("mcqa", "ROD"): 3, ("mcqa", "MVP-N"): 2, ("oeg", "ROD"): 1, ("oeg", "MVP-N"): 1}
    assert plan.samples_by_id == {
        name: {sample.id: sample for sample in (*choice[name], *free[name])} for name in SIZES
    }  # fmt: skip
    assert len(set(plan.all_keys())) == plan.total == 14
    queue = plan.pending(())["internvl3-8b"]
    assert sorted(queue) == list(range(14))


def test_keys_are_pinned():
    """A run folder is resumed by its keys: where one of these changes, every stored episode is played again."""
    plan = made(models=["uniform"], conditions=["zero-shot", "icl-1", "random-proactive"], scenarios=["MVP-N"])
    assert [next(plan.keys(index)) for index in range(3)] == [
        "uniform/MVP-N/zero-shot/0010-6a7dd1b7",
        "uniform/MVP-N/icl-1/0010-9e826d4b",
        "uniform/MVP-N/random-proactive/0010-6aa84984",
    ]


def test_what_random_proactive_draws_from_is_in_its_keys_and_in_no_others():
    """All samples of a scenario have one table of suggestions, so the first one's counts, in whatever order its rows are."""
    played = samples({"MVP-N": 2})
    known = {"a": ("one", "two"), "b": ("three",)}

    def keys(condition, *tables):
        drawn = {"MVP-N": [replace(s, suggestion_pool=one) for s, one in zip(played["MVP-N"], tables, strict=False)]}
        return keys_of(made(drawn, drawn, scenarios=["MVP-N"], models=["uniform"], conditions=[condition]), condition)

    other = {"a": ("one",), "b": ("three",)}
    assert keys("random-proactive", known, known) == keys("random-proactive", dict(reversed(known.items())), known)
    assert not set(keys("random-proactive", known, known)) & set(keys("random-proactive", other, known))
    assert keys("random-proactive", known, known) == keys("random-proactive", known, other)
    assert keys("random-proactive", known, known)[:1] == keys("random-proactive", known)
    assert keys("zero-shot", known, known) == keys("zero-shot", other, known)


def test_a_scenario_of_which_no_sample_is_played_has_no_episode():
    none = made(played={"ROD": [], "MVP-N": []}, models=["uniform"], conditions=["zero-shot", "random-proactive"])

    assert none.total == 0 and list(none.all_keys()) == [] and none.pending(()) == {}


def test_of_a_sweep_of_one_cell_everything_is_pending_and_the_first_ordinal_is_zero():
    assert made(models=["uniform"], scenarios=["ROD"], conditions=["hint"]).pending(()) == {"builtin": [0, 1, 2]}


def test_how_functions_are_called_is_part_of_the_keys_of_calls_alone(demo_data):
    def keys(protocol, **fields):
        served = {"name": "m", "source": "served", "backend": "openai", "endpoint": {"key_env": ""}, **fields}
        table = {"data": str(demo_data), "models": ["m"], "model": [served], "scenarios": ["QD"], "protocol": protocol}
        return set(build_plan(build(table, "test.toml")).all_keys())

    assert keys("tools").isdisjoint(keys("tools", tools="text"))
    on_vllm = [keys("tools", backend="vllm", endpoint={}, tools=name) for name in ("", "text", "hermes", "pythonic")]
    assert on_vllm[0] == on_vllm[1] and len({*on_vllm[1], *on_vllm[2], *on_vllm[3]}) == 3 * len(on_vllm[0])
    assert keys("mcqa") == keys("mcqa", tools="text") and keys("mcqa").isdisjoint(keys("tools"))
    assert keys("mcqa") | keys("tools") == keys(["tools", "mcqa"])


def test_another_judge_is_another_episode_where_it_reads_between_turns(demo_data):
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
