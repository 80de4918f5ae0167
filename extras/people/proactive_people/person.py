"""An engine whose replies a person chooses, one question at a time.

The person sees what every engine gets, and nothing else of the game. Only the first answer to the open question counts.
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter

from pydantic import BaseModel

from actors.engine.backend import Backend, Message, Reply, Request
from actors.engine.chat_format import data_url
from actors.engine.image_loader import PictureLoader
from envs import regular
from envs.types import ImageRef
from orchestrator.storage import safe_write
from sweeps.sweep_file import SweepError
from sweeps.values import NAME

FILE = "unfinished.json"
MAX_BYTES = 1 << 20


def check_name(name: str) -> None:
    """Raise SweepError for a text that cannot name a person."""
    if len(name) > 60 or not re.fullmatch(NAME, name):
        raise SweepError(f"--as {name!r} must be letters, digits, dots, dashes, plus signs or underscores, 60 at most")


class StoredReplies(BaseModel):
    """The content of the file ``unfinished.json``."""

    key: str = ""
    replies: list[str] = []


class Unfinished:
    """The stored replies of an interrupted episode; empty if the file is unreadable or belongs to another episode."""

    def __init__(self, folder: Path) -> None:
        self.path, self.stored = folder / FILE, StoredReplies()
        self._replayed = iter(self.stored.replies)

    def open(self, key: str) -> None:
        """Start or resume the episode with this key."""
        stored = StoredReplies()
        with suppress(OSError, ValueError):
            stored = StoredReplies.model_validate_json(regular.read_bytes(self.path, MAX_BYTES))
        self.stored = stored if stored.key == key else StoredReplies(key=key)
        self._replayed = iter(list(self.stored.replies))

    def next_reply(self) -> str | None:
        """Return the next reply that is not replayed yet; None after the last one."""
        return next(self._replayed, None)

    def add(self, reply: str) -> None:
        """Store a reply durably. Raises OSError."""
        self.stored.replies.append(reply)
        safe_write.write(self.path, self.stored.model_dump_json().encode())

    def close(self) -> None:
        """Delete the replies, because the episode is stored."""
        self.stored = StoredReplies()
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class OpenQuestion:
    number: int
    """Unique in the process, from 1 on."""
    messages: tuple[Message, ...]
    options: tuple[str, ...]
    """Suggestions and categories in the order of the prompt's letters; the chosen text is the reply."""
    pictures: dict[ImageRef, str]
    """The pixels as ``data:`` addresses, which reveal nothing about the file."""
    answer: asyncio.Future[str]


class Person(Backend):
    """A person as an engine; plays one episode at a time."""

    def __init__(self, data: Path, unfinished: Unfinished) -> None:
        """``data`` is the folder of the pictures; ``unfinished`` stores the replies of the current episode."""
        self.loader, self.unfinished = PictureLoader(data), unfinished
        self.question: OpenQuestion | None = None
        self.over = False
        """True after the last question."""
        self._numbers = count(1)
        self._changed = asyncio.Condition()

    async def reply(self, request: Request) -> Reply:
        """Return the stored reply of an interrupted episode, or the person's answer. Raises Unprocessable."""
        if (stored_reply := self.unfinished.next_reply()) is not None:
            return Reply(stored_reply)
        start = perf_counter()
        question = await self._ask(request)
        text = await question.answer
        self.unfinished.add(text)
        return Reply(text, seconds=perf_counter() - start)

    def answer(self, number: int, choice: int) -> bool:
        """Answer the open question; return False if its number differs, it has an answer, or the choice is not an option."""
        question = self.question
        if question is None or question.number != number or question.answer.done():
            return False
        if not 0 <= choice < len(question.options):
            return False
        question.answer.set_result(question.options[choice])
        return True

    async def question_after(self, number: int) -> OpenQuestion | None:
        """Wait for a question with a higher number; None after the last question."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.over or (self.question and self.question.number > number))
        return None if self.over else self.question

    async def end(self) -> None:
        """Wake up waiting pages: no question follows."""
        self.over = True
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """Release the threads of the picture loader; safe to call twice."""
        self.loader.close()

    async def _ask(self, request: Request) -> OpenQuestion:
        pictures = await self.loader.load_as(request.messages, data_url)
        number, view = next(self._numbers), request.situation.view
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        question = OpenQuestion(number, request.messages, view.options + view.categories, pictures, answer)
        self.question = question
        async with self._changed:
            self._changed.notify_all()
        return question
