"""Every random choice comes from a generator named by (seed, scenario, sample, purpose), so it does not depend on the model,
the order, or the number of workers."""

from hashlib import blake2b
from random import Random


def chance(seed: int, scenario: str, sample_id: int, purpose: str) -> Random:
    """Return the generator for one purpose of one sample."""
    return Random(f"{seed}/{scenario}/{sample_id}/{purpose}")


def episode_seed(seed: int, scenario: str, sample_id: int, purpose: str = "episode") -> int:
    """Return a 63-bit seed for one episode's sampling and moves; blake2b, because every planned episode needs one."""
    name = f"{seed}/{scenario}/{sample_id}/{purpose}".encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") >> 1
