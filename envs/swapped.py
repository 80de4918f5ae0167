"""Draws, by seed, the sample with another answer whose picture replaces a sample's own (``condition.picture = "swapped"``)."""

from collections.abc import Sequence
from dataclasses import replace

from envs import SCENARIOS
from envs.answers import as_text
from envs.chance import chance
from envs.samples import BadData
from envs.types import Sample, Swapped


def with_swapped_pictures(samples: Sequence[Sample], pool: Sequence[Sample], seed: int) -> list[Sample]:
    """Return the samples of one scenario, each with the first picture of another one of the pool.

    Raises BadData if the pool has no sample with another answer.
    """
    answers = {as_text(other.answer) for other in pool}
    return [replace(sample, swapped=_draw_picture(sample, pool, answers, seed)) for sample in samples]


def _draw_picture(sample: Sample, pool: Sequence[Sample], answers: set[str], seed: int) -> Swapped:
    own = as_text(sample.answer)
    if not answers - {own}:
        raise BadData(
            f"{sample.scenario} has no sample with another answer than sample {sample.id}, whose picture could be "
            "swapped in; leave the condition out, or play more samples"
        )
    rng = chance(seed, sample.scenario, sample.id, "swapped")
    while as_text((other := rng.choice(pool)).answer) == own:
        pass
    game = SCENARIOS[other.scenario]
    return Swapped(other.id, other.digest, game.image(other, game.initial(other)))
