"""Splits the replies of a local model whose entry has ``thinking``."""

import re
from typing import Any

from envs.thoughts import opens_thoughts, split_thoughts


class ThoughtReader:
    """The marks of one model; its replies are decoded with special tokens, because some models mark thoughts by these."""

    def __init__(self, tokenizer: Any, prompt: str) -> None:
        """``prompt`` is any prompt of the chat template, which may open the first thought of each reply."""
        self.is_open = opens_thoughts(prompt)
        tokens = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        self.special = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")

    def split(self, text: str, finish: str) -> tuple[str, str]:
        """Return thoughts and answer; the answer may hold special tokens, which parsers of calls read."""
        thought, answer = split_thoughts(text, self.is_open or finish == "length")
        return self.clean(thought), answer

    def clean(self, text: str) -> str:
        """Return a text without special tokens."""
        return self.special.sub("", text).strip()
