"""Requests about painted pictures, for every engine's tests."""

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from PIL import Image

from actors.engine.backend import Message, Request, Situation
from envs.types import ImageRef, Sample, State, View
from sweeps.sampling import Sampling

SAMPLE = Sample("ROD", 0, "What is hidden?", ("I cannot tell.",), ("Fork.", "Knife."), "Fork.", "{image}.png", 0, 2, 0)


def paint_pictures(folder: Path, names: Iterable[str], size: tuple[int, int] = (64, 48)) -> list[ImageRef]:
    """Write one picture for each name, each in another color."""
    references = []
    for number, name in enumerate(names):
        colour = (37 * number % 256, 255 - 53 * number % 256, 91 * number % 256)
        Image.new("RGB", size, colour).save(folder / name)
        references.append(ImageRef(name))
    return references


def make_request(*messages: Message, seed: int = 1, **sampling: float) -> Request:
    """Build a request; the last message must be the user's."""
    view = View(messages[-1].images[0] if messages[-1].images else ImageRef("none"), "", (), SAMPLE.categories)
    return Request(messages, Sampling(**sampling), seed, Situation(SAMPLE, State(0), view))


def user(text: str, *images: ImageRef) -> Message:
    """Build the message that the player sees."""
    return Message("user", text, images)


def script_engine(backend: Any, write: Callable[[Any, Any], str]) -> None:
    """Let a vLLM backend without engine end each request with a text; ``write`` gets its prompt and parameters."""

    async def generate(prompt: Any, parameters: Any, number: str, **others: Any) -> AsyncIterator[Any]:
        output = SimpleNamespace(text=write(prompt, parameters), token_ids=[5], finish_reason="stop")
        yield SimpleNamespace(finished=True, outputs=[output], prompt_token_ids=[1], num_cached_tokens=0)

    async def is_sleeping() -> bool:
        return False

    backend.engine.generate, backend.engine.is_sleeping = generate, is_sleeping
