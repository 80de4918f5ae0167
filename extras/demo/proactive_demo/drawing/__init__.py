"""A small benchmark drawn from a seed, in the published format; equal seeds and numbers of samples give equal bytes."""

from proactive_demo.drawing.benchmark import SCENARIOS, draw, draw_sample, samples_per_scenario
from proactive_demo.drawing.categories import CATEGORIES
from proactive_demo.drawing.entries import DemoSample

__all__ = ["CATEGORIES", "SCENARIOS", "DemoSample", "draw", "draw_sample", "samples_per_scenario"]
