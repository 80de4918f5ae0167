"""Pipeline stages of a replica, which vLLM can spread over nodes; every other engine has all its GPUs on one node."""

from collections.abc import Mapping
from typing import Any

STAGES, WIDTH, EXECUTOR = "pipeline_parallel_size", "tensor_parallel_size", "distributed_executor_backend"
"""Options of vLLM."""
MOST_GPUS = 64
"""Most GPUs of one replica."""
NODE_GPUS = 8
"""Most GPUs of one stage, all of which are on one node."""


def wrong_stages(backend: str, gpus: float, options: Mapping[str, Any]) -> str:
    """Return why a replica cannot be spread over GPUs as its entry says; empty if it can."""
    stages, width = options.get(STAGES, 1), options.get(WIDTH)
    if backend != "vllm":
        return _not_vllm(backend, gpus, options)
    if not isinstance(stages, int) or isinstance(stages, bool) or stages < 1:
        return f"{STAGES} = {stages!r} is no number of stages; write 2 or more, or leave it out"
    if options.get(EXECUTOR) == "ray":
        return f'{EXECUTOR} = "ray" is set automatically for a replica on several nodes; leave it out'
    if gpus > NODE_GPUS * stages:
        return (
            f"a node has {NODE_GPUS} GPUs at most, so gpus = {gpus} needs options.{STAGES} = {-(-int(gpus) // NODE_GPUS)},"
            " which splits a replica over nodes"
        )
    if gpus > 1 and stages > 1 and gpus % stages:
        return f"gpus = {gpus} counts the GPUs of all stages; with {STAGES} = {stages}, write a multiple of {stages}"
    if gpus > 1 and stages > 1 and width not in (None, gpus // stages):
        return f"{WIDTH} = {width} does not make gpus = {gpus} in {stages} stages; leave {WIDTH} out"
    return ""


def _not_vllm(backend: str, gpus: float, options: Mapping[str, Any]) -> str:
    if gpus <= NODE_GPUS and STAGES not in options:
        return ""
    if backend != "openai":
        return (
            f"backend {backend} has all GPUs of a replica on one node; write gpus = {NODE_GPUS} or less without {STAGES},"
            ' or backend = "vllm"'
        )
    return f"a service has no GPUs here; leave gpus and options.{STAGES} out, and give them to the server itself"
