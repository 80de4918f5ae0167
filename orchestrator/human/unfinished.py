"""The replies of a person's current episode, stored in the run folder: an interrupted episode resumes at the same question.

A reply is on disk before the next question appears, so no answer is lost.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from envs import regular
from orchestrator.storage import atomic_write

NAME = "unfinished.json"
MAX_BYTES = 1 << 20


class Unfinished:
    """The replies of one episode; empty if the file is unreadable or belongs to another episode."""

    def __init__(self, folder: Path) -> None:
        self.path, self.key = folder / NAME, ""
        self.replies: list[str] = []
        self._position = 0

    def open(self, key: str) -> None:
        """Start or resume the episode with this key."""
        stored_key, replies = _read(self.path)
        self.key, self.replies, self._position = key, replies if stored_key == key else [], 0

    def next_reply(self) -> str | None:
        """Return the next stored reply; None after the last one."""
        if self._position >= len(self.replies):
            return None
        self._position += 1
        return self.replies[self._position - 1]

    def add(self, reply: str) -> None:
        """Store a reply durably. Raises OSError."""
        self.replies.append(reply)
        self._position += 1
        atomic_write.write(self.path, json.dumps({"key": self.key, "replies": self.replies}).encode())

    def close(self) -> None:
        """Delete the replies, because the episode is stored."""
        self.replies = []
        self.path.unlink(missing_ok=True)


def _read(path: Path) -> tuple[str, list[str]]:
    """Return key and replies of the file; empty if it is missing or damaged."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(regular.read_bytes(path, MAX_BYTES))
        key, replies = (content.get("key"), content.get("replies")) if isinstance(content, dict) else ("", [])
        if isinstance(key, str) and isinstance(replies, list) and all(isinstance(reply, str) for reply in replies):
            return key, replies
    return "", []
