"""Every random choice comes from a generator named by (seed, scenario, sample, purpose), so it is the same for every
model, in any order, with any number of workers."""

from __future__ import annotations

from hashlib import blake2b
from random import Random


def chance(seed: int, scenario: str, sample_id: int, purpose: str) -> Random:
    """The generator for one purpose of one sample."""
    return Random(f"{seed}/{scenario}/{sample_id}/{purpose}")


def episode_seed(seed: int, scenario: str, sample_id: int, purpose: str = "episode") -> int:
    """A 63-bit seed for one episode's sampling and moves; blake2b because it is drawn for every planned episode."""
    name = f"{seed}/{scenario}/{sample_id}/{purpose}".encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") >> 1
