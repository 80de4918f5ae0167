"""The suggestions of random-proactive: each one is replaced by another scenario's suggestion, which has no meaning in this one.

They are drawn by (seed, sample) from all suggestions of the data folder, so they are equal for every model and every choice of
scenarios. The package leaves open how to draw them; the paper's example is "rewind the video" for a sketch.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from envs import SCENARIOS
from envs.answers import as_text
from envs.chance import chance
from envs.samples import BadData, ReadSamples, read_samples, scenarios_in
from envs.scenario import suggestions
from envs.types import Sample, Swapped

_FOREIGN = tomllib.loads(Path(__file__).with_name("foreign_suggestions.toml").read_text("utf-8"))
FOREIGN = {name: tuple(texts) for name, texts in _FOREIGN.items()}
"""The suggestions of samples without a data folder."""

Suggestions = Mapping[str, tuple[str, ...]]
"""Scenario -> its suggestions."""


def folder_suggestions(folder: Path, read: ReadSamples = read_samples) -> Suggestions:
    """Return the suggestions of each scenario in the folder, sorted; missing files and bad lines are ignored."""
    return {
        name: tuple(sorted({ask for sample in read(folder, name)[0] for ask in suggestions(sample.options)}))
        for name in scenarios_in(folder)
    }


@lru_cache(maxsize=256)
def _invalid(scenario: str, pool: tuple[tuple[str, tuple[str, ...]], ...], source: str | None) -> Suggestions:
    """Return other scenarios' suggestions (or those of ``source``) that mean nothing in this one."""
    cues = SCENARIOS[scenario].cue
    texts = {
        name: tuple(text for text in texts if not any(cue in text.lower() for cue in cues))
        for name, texts in pool
        if name != scenario and source in (None, name)
    }
    return {name: texts[name] for name in SCENARIOS if texts.get(name)}


def replace_suggestions(sample: Sample, seed: int, source: str | None = None) -> Sample:
    """Return the sample with every suggestion replaced; the abstention and the positions stay.

    A scenario is drawn first and then one of its suggestions, so that scenarios with many wordings do not dominate.
    Raises ValueError if too few suggestions are invalid here.
    """
    asks = suggestions(sample.options)
    everything = FOREIGN if sample.suggestion_pool is None else sample.suggestion_pool
    pool = _invalid(sample.scenario, tuple(everything.items()), source)
    if (count := len({text for texts in pool.values() for text in texts})) < len(asks):
        needed = f"{len(asks)} suggestions of {source or 'other scenarios'} for {sample.scenario} sample {sample.id}"
        lack = f"only {count} mean nothing in {sample.scenario}; it takes them from the data folder"
        raise ValueError(f"random-proactive needs {needed}, but {lack}")
    rng = chance(seed, sample.scenario, sample.id, "disguise")
    remaining = {name: list(texts) for name, texts in pool.items()}
    replacements: list[str] = []
    while len(replacements) < len(asks):
        name = rng.choice(sorted(remaining))
        text = remaining[name].pop(rng.randrange(len(remaining[name])))
        replacements += [text] if text not in replacements else []
        remaining = {name: texts for name, texts in remaining.items() if texts}
    texts = iter(replacements)
    return replace(sample, options=tuple(next(texts) if option in asks else option for option in sample.options))


def with_swapped_pictures(samples: Sequence[Sample], pool: Sequence[Sample], seed: int) -> list[Sample]:
    """Return the samples of one scenario, each with the first picture of a sample of the pool that has another answer.

    Raises BadData if the pool has none.
    """
    answers, changed = {as_text(other.answer) for other in pool}, list[Sample]()
    for sample in samples:
        own, rng = as_text(sample.answer), chance(seed, sample.scenario, sample.id, "swapped")
        if not answers - {own}:
            reason = "because no other sample has another answer; leave the condition out, or play more samples"
            raise BadData(f"no picture can be swapped into {sample.scenario} sample {sample.id}, {reason}")
        while as_text((other := rng.choice(pool)).answer) == own:
            pass
        game = SCENARIOS[other.scenario]
        picture = game.image(other, game.initial(other))
        changed.append(replace(sample, swapped=Swapped(other.id, other.digest, picture)))
    return changed
