"""The replies of the episode that a person is in, kept in the run folder: a stopped episode goes on at the same question.

A reply is on the disk before the next question is shown, so stopping the program takes no answer back.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from envs import regular
from orchestrator.storage import atomic_write

NAME = "unfinished.json"
LARGEST = 1 << 20
"""Bytes of the file that are read."""


class Unfinished:
    """The replies of one episode; where the file cannot be read, or is of another episode, it begins anew."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the run's."""
        self.path, self.key = folder / NAME, ""
        self.replies: list[str] = []
        self._given = 0

    def open(self, key: str) -> None:
        """Begin with the episode of this key, or go on in it."""
        stored_key, replies = _read(self.path)
        self.key, self.replies, self._given = key, replies if stored_key == key else [], 0

    def again(self) -> str | None:
        """The next reply of an earlier process; None once all were given again."""
        if self._given >= len(self.replies):
            return None
        self._given += 1
        return self.replies[self._given - 1]

    def add(self, reply: str) -> None:
        """Keep a reply; it is on the disk when this returns. Raises OSError."""
        self.replies.append(reply)
        self._given += 1
        atomic_write.write(self.path, json.dumps({"key": self.key, "replies": self.replies}).encode())

    def close(self) -> None:
        """Forget the episode: it is stored."""
        self.replies = []
        self.path.unlink(missing_ok=True)


def _read(path: Path) -> tuple[str, list[str]]:
    """Key and replies of the file, empty where it says nothing that can be used."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(regular.read_bytes(path, LARGEST))
        key, replies = (found.get("key"), found.get("replies")) if isinstance(found, dict) else ("", [])
        if isinstance(key, str) and isinstance(replies, list) and all(isinstance(one, str) for one in replies):
            return key, replies
    return "", []
