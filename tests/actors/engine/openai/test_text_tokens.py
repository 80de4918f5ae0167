"""The estimated tokens of a prompt: four bytes a token, four tokens a message, pictures by rule or by pixels."""

from __future__ import annotations

import pytest

from actors.engine.backend import Message, Request, Situation
from actors.engine.openai.prompt_tokens import picture_tokens, text_tokens
from envs import SCENARIOS
from envs.render import UnreadablePicture
from envs.tool_calls import Function
from envs.types import ImageRef
from sweeps.sampling import Sampling
from tests.envs.games import SAMPLES

GAME, SAMPLE = SCENARIOS["ROD"], SAMPLES["ROD"]
STATE = GAME.initial(SAMPLE)
SITUATION = Situation(SAMPLE, STATE, GAME.view(SAMPLE, STATE))


def request(*messages: Message, tools: tuple[Function, ...] = ()) -> Request:
    return Request(messages, Sampling(), 0, SITUATION, tools=tools)


@pytest.mark.parametrize(("text", "tokens"), [("", 4), ("a", 5), ("abcd", 5), ("abcde", 6), ("üü", 5), ("üüa", 6)])
def test_text_counts_four_bytes_a_token_and_four_tokens_a_message(text: str, tokens: int) -> None:
    assert text_tokens(request(Message("user", text))) == tokens
    assert text_tokens(request(Message("user", text), Message("assistant", text))) == 2 * tokens
    assert text_tokens(request(Message("user", "\ud800"))) == 5, "half a character counts as one byte"


def test_functions_count_as_messages() -> None:
    function = Function("go", "Goes.", "way", ("left",))
    extra = -(-len(str(function)) // 4) + 4

    assert text_tokens(request(Message("user", "abcd"), tools=(function, function))) == 5 + 2 * extra


def test_pictures_count_by_the_rule_of_the_model_or_one_token_for_750_pixels() -> None:
    sizes = {"small": (100, 100), "edge": (240, 200), "next": (241, 200), "large": (1024, 1024)}
    refs = {name: ImageRef(name) for name in (*sizes, "damaged")}

    def size(ref: ImageRef) -> tuple[int, int]:
        if ref.path == "damaged":
            raise UnreadablePicture("damaged")
        return sizes[ref.path]

    def tokens(source: str, *names: str) -> int:
        return picture_tokens(request(Message("user", "?", tuple(refs[name] for name in names))), source, size)

    assert [tokens("qwen", name) for name in refs] == [64, 64, 65, 1399, 0]  # 48,200 pixels are 64.3 times 750
    assert tokens("qwen", "small", "damaged", "next", "next") == 64 + 2 * 65 and tokens("qwen") == 0
    assert tokens("gpt-4o", "small", "large") == 85 + 170 + 765
