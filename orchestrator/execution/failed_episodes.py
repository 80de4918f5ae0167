"""Batches of episodes that the harness gives up.

They are stored like any other, with an ending that no table counts as an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.play import Episode
from actors.records import EpisodeBatch, EpisodeRows, PlayedEpisode
from envs.types import Ending
from orchestrator.planning.plan import Plan


def failed_batch(plan: Plan, ordinals: Sequence[int], reason: str) -> EpisodeBatch:
    """Rows that record ``reason`` for each ordinal: ending FAILED, no turns."""
    rows = EpisodeRows()
    for ordinal in ordinals:
        index, sample = plan.task(ordinal)
        key, seed = plan.key(index, sample), plan.episode_seed(sample, plan.cells[index].condition)
        failed = Episode(key, sample, seed, (), Ending.FAILED, reason, 0.0)
        rows.add(PlayedEpisode(ordinal, plan.cells[index], failed))
    return rows.batch()
