"""``Person``: an engine whose replies a person chooses, one question at a time.

It shows what any engine is sent and nothing else of the game; an answer counts for the question it was given to, and once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from actors.engine.backend import Backend, Message, Reply, Request
from actors.engine.image_loader import PictureLoader, encode_png
from envs.types import ImageRef
from orchestrator.human.unfinished import Unfinished


class ServedPicture(NamedTuple):
    """A picture of a question."""

    number: int
    """Under which it is served: a running count, which says nothing of the file."""
    width: int
    """Pixels."""
    height: int


@dataclass(frozen=True)
class OpenQuestion:
    """What is asked now."""

    number: int
    """From 1 on; no two questions of a process have the same."""
    messages: tuple[Message, ...]
    options: tuple[str, ...]
    """Suggestions and categories as the prompt letters them; the text of the chosen one is the reply."""
    pictures: dict[ImageRef, ServedPicture]
    answer: asyncio.Future[str]


class Person(Backend):
    """A person behind the engines' interface (``actors.engine.backend.Backend``); plays one episode at a time."""

    def __init__(self, data: Path, unfinished: Unfinished) -> None:
        """``data`` is the folder of the pictures; ``unfinished`` keeps the replies of the episode that is being played."""
        self.loader, self.unfinished = PictureLoader(data), unfinished
        self.question: OpenQuestion | None = None
        self.over = False
        """True if there will be no further question."""
        self.pictures: dict[int, bytes] = {}
        """The pictures of the open question as PNG, by number."""
        self._asked, self._numbers = 0, count(1)
        self._changed = asyncio.Condition()

    async def reply(self, request: Request) -> Reply:
        """Ask; a reply that an earlier process took for this turn is given again. Raises Unprocessable."""
        if (stored_reply := self.unfinished.again()) is not None:
            return Reply(stored_reply)
        began = perf_counter()
        question = await self._posed(request)
        text = await question.answer
        self.unfinished.add(text)
        return Reply(text, seconds=perf_counter() - began)

    def answer(self, number: int, choice: int) -> bool:
        """Choose an option of the open question; False where another question is open, or it was answered already."""
        question = self.question
        if question is None or question.number != number or question.answer.done():
            return False
        if not 0 <= choice < len(question.options):
            return False
        question.answer.set_result(question.options[choice])
        return True

    async def after(self, number: int) -> OpenQuestion | None:
        """The first question after this one, waited for; None when there is no further one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.over or (self.question and self.question.number > number))
        return None if self.over else self.question

    async def end(self) -> None:
        """Say that there will be no further question."""
        self.over = True
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """Release the threads that open pictures; safe to call twice."""
        self.loader.close()

    async def _posed(self, request: Request) -> OpenQuestion:
        loaded = await self.loader.load_as(request.messages, lambda picture: (picture.size, encode_png(picture)))
        self._asked += 1
        pictures = {ref: ServedPicture(next(self._numbers), *size) for ref, (size, _) in loaded.items()}
        self.pictures = {pictures[ref].number: content for ref, (_, content) in loaded.items()}
        view = request.situation.view
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        question = OpenQuestion(self._asked, request.messages, view.options + view.categories, pictures, answer)
        self.question = question
        async with self._changed:
            self._changed.notify_all()
        return question
