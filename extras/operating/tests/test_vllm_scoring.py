"""vLLM's probabilities of replies are those of transformers, in float32."""

from __future__ import annotations

import asyncio
import math
import os
from pathlib import Path

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

from scoring_agreement import NAMES, compare

from actors.engine.backend import Reply
from actors.engine.vllm import scoring
from actors.engine.vllm.scoring import NextToken, score, tokens_after_prefixes


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_replies_have_the_probabilities_of_transformers(name: str, demo_data: Path, tmp_path: Path) -> None:
    """Every way to name an option, in all scenarios; ``scoring_agreement`` measures more states."""
    result = compare(name, demo_data, tmp_path, states=7)
    print(result)
    assert result.states == 7 and result.replies > 100
    assert result.log_probability < 1e-4
    assert result.probability < 1e-5
    assert result.greedy == 0


@pytest.mark.long
def test_replies_after_a_thought_have_the_probabilities_of_transformers(demo_data: Path, tmp_path: Path) -> None:
    result = compare("text", demo_data, tmp_path, states=1, thought="<think>It is small.</think>\n\n")
    assert result.replies > 10
    assert result.log_probability < 1e-4


def test_each_prefix_is_asked_once_for_all_that_may_follow() -> None:
    assert tokens_after_prefixes([(5, 6), (5, 7), (5,), (8,)], [2, 3]) == {
        (): [5, 8], (5,): [2, 3, 6, 7], (5, 6): [2, 3], (5, 7): [2, 3], (8,): [2, 3],
    }  # fmt: skip


def test_a_reply_ends_with_any_end_token_and_is_greedy_if_every_step_is() -> None:
    usage = Reply("")
    nodes = {
        (): NextToken({5: math.log(0.6)}, 5, usage),
        (5,): NextToken({2: math.log(0.1), 3: math.log(0.5)}, 3, usage),
    }
    ended = score(nodes, (5,), (2, 3))
    assert math.exp(ended.log_probability) == pytest.approx(0.36)
    assert ended.greedy
    assert not score(nodes, (5,), (2,)).greedy
    assert score(nodes, (5,), ()).log_probability == -math.inf


def test_more_tokens_than_vllm_names_are_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def answer(backend: object, request: object, prefix: tuple[int, ...], tokens: list[int]) -> NextToken:
        asked.append(list(tokens))
        return NextToken(dict.fromkeys(tokens, -1.0), 7, Reply(""))

    monkeypatch.setattr(scoring, "_ask", answer)
    monkeypatch.setattr(scoring, "MAX_LOGPROB_TOKEN_IDS", 2)
    node = asyncio.run(scoring._next_token(None, None, (), [1, 2, 3]))  # type: ignore[arg-type]
    assert asked == [[1, 2], [3]]
    assert set(node.logs) == {1, 2, 3}
