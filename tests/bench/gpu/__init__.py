"""What ``make gpu`` measures on a machine with one CUDA GPU, Python 3.12, torch, transformers and torchvision."""

from typing import NamedTuple


class Part(NamedTuple):
    """One measurement, which runs as a process of its own."""

    seconds: float
    """The most it may take."""
    shows: str


MODEL = "drawn weights of this size: requests/s of the worker's loop and of plain generate, decoding, busy share"
PARTS = {
    "qwen2.5-vl-3b": Part(120, MODEL),
    "llava-ov-7b": Part(120, MODEL),
    "faults": Part(60, "a batch that does not fit is halved; a device assert ends the engine with one sentence"),
    "batch": Part(120, "answers that change with the batch size"),
    "two-models": Part(60, "two small models side by side on one GPU, beside one alone"),
    "vllm": Part(60, "the worker's loop and LLM.chat on vLLM with drawn weights, where it is installed"),
}
"""Name -> part, in the order in which they run."""
NEEDED = {
    "torch": "torch",
    "transformers": "transformers",
    "torchvision": "torchvision",
    "PIL": "pillow",
    "pydantic": "pydantic",
}
"""Module that the parts import -> its distribution."""
SKIPPED = 3
"""Exit code of a part that cannot run on this machine, and of the whole if a part was skipped."""


class CannotRunHere(Exception):
    """Why a part cannot run on this machine."""
