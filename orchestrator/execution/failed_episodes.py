"""Episodes that the harness gives up are stored like any other, with an ending that no table counts as an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actors.play import Episode
from actors.records import Block
from envs.types import Ending
from orchestrator.planning.plan import Plan


def failed_block(plan: Plan, ordinals: Sequence[int], reason: str) -> dict[str, Any]:
    """Rows that record ``reason`` for each ordinal: ending FAILED, no turns."""
    block = Block()
    for ordinal in ordinals:
        index, sample = plan.task(ordinal)
        key, seed = plan.key(index, sample), plan.episode_seed(sample)
        block.add(ordinal, plan.cells[index], Episode(key, sample, seed, (), Ending.FAILED, reason, 0.0))
    return block.content()
