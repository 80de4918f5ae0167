"""One part of ``make gpu`` as a process: prints its findings as one JSON line; exit code 3 and a sentence where it cannot run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tests.bench.gpu.__main__ import SKIPPED


class NotHere(Exception):
    """Why a part cannot run on this machine."""


def parts() -> dict[str, Callable[[str, bool], dict[str, Any]]]:
    """Name -> the function of device and size that runs it."""
    from tests.bench.gpu import engine, speed

    return {
        "driver": engine.driver,
        "release": engine.release,
        "architectures": engine.architectures,
        "batch": engine.batch,
        "out-of-memory": engine.out_of_memory,
        "device-assert": engine.device_assert,
        "ray": engine.through_ray,
        "preprocessing": speed.preprocessing,
        "busy": speed.busy,
        "prefill": speed.prefill,
        "decode": speed.decode,
    }


def main(name: str, device: str, small: bool) -> int:
    try:
        if device == "cuda":
            import torch

            if not torch.cuda.is_available():
                raise NotHere("torch sees no CUDA device")
        findings = parts()[name](device, small)
    except ModuleNotFoundError as missing:
        print(f"the package {missing.name} is not installed")
        return SKIPPED
    except NotHere as reason:
        print(reason)
        return SKIPPED
    print(json.dumps(findings))
    return 0


if __name__ == "__main__":
    sys.modules["tests.bench.gpu.part"] = sys.modules["__main__"]  # the parts raise this module's NotHere
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3] == "small"))
