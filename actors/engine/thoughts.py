"""Splits the replies of a local model whose entry has ``thinking``: thoughts and answer have a token budget each."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from envs.thoughts import opens_thoughts, split_thoughts, tidy_answer
from sweeps.sampling import Thinking


class ThoughtReader:
    """The marks of one model; its replies are decoded with special tokens, because some models mark thoughts by these."""

    def __init__(self, decoder: Any, prompt: str, thinking: Thinking) -> None:
        """``decoder``: a tokenizer that encodes in no other thread; ``prompt``: any prompt, which may open a reply's thought."""
        self.is_open, self.budget, self.decoder = opens_thoughts(prompt), thinking.budget, decoder
        tokens = {str(token) for token in decoder.added_tokens_decoder.values() if token.special}
        self.special = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")

    def read(self, text: str, tokens: Sequence[int], finish: str, answer_tokens: int) -> tuple[str, str, str]:
        """Return thoughts, answer and finish of a reply, without thoughts above their budget or an answer above its own.

        The answer is empty if the thoughts are cut off; it may hold special tokens, which parsers of calls read.
        """
        thoughts, answer = self.split(text, finish)
        if len(tokens) <= min(self.budget, answer_tokens):
            return thoughts, answer, finish
        start = text.rfind(answer) if answer else len(text)
        if self._count_tokens(tokens, len(text[:start].rstrip())) > self.budget:
            thoughts, _ = self.split(self._decode(tokens[: self.budget]), "length")
            return thoughts, "", "length"
        end = self._count_tokens(tokens, start) + answer_tokens
        if end < len(tokens):
            answer, finish = tidy_answer(self._decode(tokens[:end])[start:]), "length"
        return thoughts, answer, finish

    def split(self, text: str, finish: str) -> tuple[str, str]:
        """Return thoughts and answer of a whole reply."""
        thought, answer = split_thoughts(text, self.is_open or finish == "length")
        return self.clean(thought), answer

    def clean(self, text: str) -> str:
        """Return a text without special tokens."""
        return self.special.sub("", text).strip()

    def _count_tokens(self, tokens: Sequence[int], length: int) -> int:
        """Return how many tokens the first ``length`` characters of a reply take."""
        return bisect_left(range(len(tokens)), length, key=lambda count: len(self._decode(tokens[:count])))

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self.decoder.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=True)
        return text.rstrip("\ufffd")
