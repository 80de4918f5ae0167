"""The number of episodes that a worker plays at once: the entry's, else derived from the requests its engine answers at once.

With fewer episodes than requests, the engine idles; beyond 1.5 episodes per request, episodes only wait and fill the memory.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sweeps.spec import ModelSpec

MAX_NUM_SEQS = 256
"""Sequences of one step of vLLM, unless the entry sets ``options.max_num_seqs``."""
BATCH_ROWS = 16
"""Rows per batch of the transformers backend, unless the entry sets ``options.batch``."""
SERVICE_EPISODES = 64
"""Episodes of a service, whose ``Pace`` allows at most so many requests in flight, and of a policy."""
PROMPT_TOKENS = 3000
"""Tokens of a typical prompt: a picture of 640 x 480 has 400 (Qwen2.5-VL) to 3,300 (InternVL3), its question about 100."""
FEWEST_SEQUENCES = 4
"""Fewest sequences assumed, even if the cache hardly holds one prompt: the next prompts are prepared meanwhile."""
REQUESTS_PER_PREPARED = 2
"""While vLLM answers so many requests, one more is prepared, ready when one of them ends."""


class StartReport(NamedTuple):
    lines: list[str]
    """Log lines about its devices, the order of loading, and the episodes it plays at once."""
    in_flight: int = 0
    """Episodes that it plays at once; 0 for policies, which are as fast one by one."""
    weights: Mapping[str, str] = {}
    """Model -> identity of the loaded weights (``weights_identity``); models without weights are left out."""


def choose_in_flight(model: ModelSpec, cache_tokens: int | None = None) -> int:
    """Return the episodes in flight of an engine; ``cache_tokens`` is the size of vLLM's key-value cache.

    Before the worker is ready, that is unknown, and leases follow the entry alone.
    """
    if model.in_flight is not None:
        return model.in_flight
    if model.backend == "transformers":
        return 2 * int(model.options.get("batch", BATCH_ROWS))  # one batch is prepared while the other is answered
    if model.backend != "vllm":
        return SERVICE_EPISODES
    sequences = int(model.options.get("max_num_seqs", MAX_NUM_SEQS))
    if cache_tokens is not None:
        sequences = min(sequences, max(FEWEST_SEQUENCES, cache_tokens // PROMPT_TOKENS))
    return with_prepared_ahead(sequences)


def with_prepared_ahead(sequences: int) -> int:
    """Return the number of requests that vLLM answers at once plus those prepared meanwhile."""
    return sequences + sequences // REQUESTS_PER_PREPARED
