"""A benchmark that a caller plays answer by answer, without any environment's package."""

from envs import SCENARIOS
from envs.chance import episode_seed
from proactive_bridges.benchmark import Benchmark
from sweeps.conditions import CONDITIONS


def first_episode(data, condition="zero-shot"):
    benchmark = Benchmark(data, ["QD"], condition)
    return benchmark.episode("QD", next(iter(benchmark.samples["QD"])))


def test_a_swapped_picture_is_another_samples_and_text_alone_has_none(demo_data):
    own, swapped = first_episode(demo_data), first_episode(demo_data, "swapped")

    assert swapped.sample.swapped is not None and swapped.image != own.image and own.sample.swapped is None
    assert swapped.sample.swapped.id != swapped.sample.id
    assert first_episode(demo_data, "text-only").image is None and own.image is not None


def test_all_scenarios_are_loaded_unless_named(demo_data):
    benchmark = Benchmark(demo_data)

    assert list(benchmark.samples) == list(SCENARIOS) and benchmark.plan.cells[0].condition == CONDITIONS["zero-shot"]
    assert {len(benchmark.samples_of(name)) for name in SCENARIOS} == {10} and benchmark.plan.seed == 0


def test_an_episode_draws_as_in_a_sweep_of_seed_0(demo_data):
    rules = Benchmark(demo_data, ["QD"], "random-proactive").episode("QD", 11).rules

    assert rules.seed == episode_seed(0, "QD", 11, "episode") and rules.condition == CONDITIONS["random-proactive"]
