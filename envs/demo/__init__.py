"""A small benchmark drawn from a seed, in the published format; equal seeds and numbers of samples give equal bytes."""

from envs.demo.benchmark import SCENARIOS, draw, draw_sample, samples_per_scenario
from envs.demo.categories import CATEGORIES
from envs.demo.entries import DemoSample

__all__ = ["CATEGORIES", "SCENARIOS", "DemoSample", "draw", "draw_sample", "samples_per_scenario"]
