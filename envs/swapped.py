"""Draws the other sample whose picture replaces a sample's own, by seed, equal for every model, never with the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envs import SCENARIOS
from envs.answers import as_text
from envs.chance import chance
from envs.samples import BadData
from envs.types import Sample, Swapped


def with_swapped_pictures(samples: Sequence[Sample], pool: Sequence[Sample], seed: int) -> list[Sample]:
    """The samples, each with the first picture of another one of the pool (``condition.picture = "swapped"``).

    All are of one scenario. Raises BadData where the pool has no sample with another answer.
    """
    answers = {as_text(other.answer) for other in pool}
    return [replace(sample, swapped=_drawn(sample, pool, answers, seed)) for sample in samples]


def _drawn(sample: Sample, pool: Sequence[Sample], answers: set[str], seed: int) -> Swapped:
    own = as_text(sample.answer)
    if not answers - {own}:
        raise BadData(
            f"{sample.scenario} has no sample with another answer than that of sample {sample.id}, whose picture could be "
            "swapped in; leave the condition out, or play more samples"
        )
    draw = chance(seed, sample.scenario, sample.id, "swapped")
    while as_text((other := draw.choice(pool)).answer) == own:
        pass
    game = SCENARIOS[other.scenario]
    return Swapped(other.id, other.digest, game.image(other, game.initial(other)))
