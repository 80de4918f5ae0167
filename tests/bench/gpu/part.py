"""One part of ``make gpu`` as a process: prints its figures as one JSON line; exit code 3 and a sentence if it cannot run."""

from __future__ import annotations

import importlib.util
import json
import sys

from tests.bench.gpu import SKIPPED, CannotRunHere


def main(name: str, device: str, small: bool) -> int:
    """Run the part; return its exit code."""
    try:
        if name == "vllm" and importlib.util.find_spec("vllm") is None:
            raise CannotRunHere("the package vllm is not installed")
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            raise CannotRunHere("torch sees no CUDA device")
        from tests.bench.gpu import faults, speed

        figures = {
            "faults": faults.measure_faults,
            "batch": faults.compare_batches,
            "two-models": speed.measure_two_models,
            "vllm": speed.measure_vllm,
        }.get(name, lambda device, small: speed.measure_model(name, device, small))(device, small)
    except (ModuleNotFoundError, CannotRunHere) as problem:
        print(problem.__cause__ or problem)  # transformers names the package that does not fit only in the cause
        return SKIPPED
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3] == "small"))
