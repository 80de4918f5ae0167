"""A service's function calls over HTTP: how they are read, what is malformed, and what no service can do with them."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import Overflow, Reply, Unprocessable
from actors.engine.chat_format import MAX_ARGUMENTS
from actors.engine.openai.backend import UNREADABLE_TRIES
from actors.engine.openai.reply import MAX_CALLS
from envs.tool_calls import Call, Function, parse_call
from tests.actors.engine.openai.test_dialects import message, outcome
from tests.actors.engine.openai.test_openai_backend import quick as quick
from tests.actors.hostile import KEY
from tests.actors.service import Answer, completion, failure

TOOL = Function("move_blocks", "left: Move.", "direction", ("left", "right"))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLS_KEY", KEY)


def call(name: Any = "move_blocks", arguments: Any = '{"direction": "left"}') -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


def call_answer(*calls: Any, content: Any = None, finish: Any = "tool_calls", raw: Any = None) -> Answer:
    """A service's answer that calls functions."""
    status, headers, body = completion(content, finish)
    body["choices"][0]["message"]["tool_calls"] = list(calls) if raw is None else raw
    return status, headers, body


def ask_service(folder: Path, answers: Any, tools: tuple[Function, ...] = (TOOL,)) -> tuple[Any, list[dict[str, Any]]]:
    """Send one request; return its outcome and the bodies that the service got."""
    reply, service = outcome(folder, answers, tools=tools, key_env="TOOLS_KEY")
    return reply, service.bodies


def test_functions_travel_as_openai_has_them_and_the_model_may_choose(tmp_path):
    reply, (body,) = ask_service(tmp_path, lambda *_: call_answer(call(), content="I look."))

    assert body["tool_choice"] == "auto" and [tool["function"]["name"] for tool in body["tools"]] == ["move_blocks"]
    assert body["tools"][0]["function"]["parameters"]["properties"]["direction"]["enum"] == ["left", "right"]
    assert parse_call(reply.text) == Call("move_blocks", {"direction": "left"}) and "I look." in reply.text
    assert (reply.finish, reply.prompt_tokens) == ("stop", 100)


def test_request_without_functions_is_unchanged_and_call_unreadable(tmp_path):
    problem, bodies = ask_service(tmp_path, lambda *_: call_answer(call()), tools=())

    assert "tools" not in bodies[0] and "tool_choice" not in bodies[0]
    assert isinstance(problem, Unprocessable) and "offered no tools" in str(problem) and len(bodies) == UNREADABLE_TRIES


READ = {
    "a text": (completion('move_blocks(direction="left")'), Call("move_blocks", {"direction": "left"})),
    "no arguments": (call_answer(call("rewind", "")), Call("rewind", {})),
    "null arguments": (call_answer(call("rewind", None)), Call("rewind", {})),
    "the older form": (message(content=None, function_call=call()["function"]), Call("move_blocks", {"direction": "left"})),
    "two calls": (call_answer(call(), call()), None),
    "JSON nonsense": (call_answer(call(arguments='{"direction": ')), None),
    "one name twice": (call_answer(call(arguments='{"direction": "left", "direction": "right"}')), None),
    "nested": (call_answer(call(arguments='{"direction": {"a": ["left"]}}')), None),
    "200,000 deep": (call_answer(call(arguments="[" * 200_000)), None),
    "a million characters": (call_answer(call(arguments='{"direction": "' + "l" * 10**6 + '"}')), None),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_reply_is_one_call_or_malformed_of_a_kind(tmp_path, name):
    answer, expected = READ[name]
    reply, bodies = ask_service(tmp_path, lambda *_: answer)

    assert isinstance(reply, Reply) and parse_call(reply.text) == expected and len(bodies) == 1
    assert len(reply.text) < MAX_ARGUMENTS + 200


@pytest.mark.parametrize(
    "raw", ["x", [None], [{"function": None}], [call(name=7)], [call(arguments={"direction": "left"})]]
)
def test_calls_outside_protocol_are_retried_then_end_episode(tmp_path, raw):
    problem, bodies = ask_service(tmp_path, lambda *_: call_answer(raw=raw))

    assert isinstance(problem, Unprocessable) and len(bodies) == UNREADABLE_TRIES and "cannot be read" in str(problem)


def test_stored_calls_are_bounded_and_hold_no_key(tmp_path):
    many = [call(f"f{KEY}" + "x" * 10**5, json.dumps({"direction": KEY * 100, "\ud800": "\x1b[2J"})) for _ in range(50)]
    reply, _ = ask_service(tmp_path, lambda *_: call_answer(*many))

    assert KEY not in reply.text and "\x1b" not in reply.text and parse_call(reply.text) is None
    assert json.loads(reply.text)["tool_calls"].__len__() == MAX_CALLS and len(reply.text) < MAX_CALLS * (
        MAX_ARGUMENTS + 200
    )


def test_service_without_function_calls_gets_the_functions_as_text(tmp_path):
    message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    written = 'move_blocks(direction="left")'
    reply, bodies = ask_service(
        tmp_path, lambda _, body: failure(400, "", message) if "tools" in body else completion(written)
    )
    longer, _ = ask_service(tmp_path, lambda *_: failure(400, "context_length_exceeded", "60 tokens are of the tools"))

    assert reply.text == written and "without tools" in reply.note and "tool_choice" not in bodies[1]
    assert "- move_blocks(direction: " in json.dumps(bodies[1]["messages"]).replace('\\"', '"')
    assert isinstance(longer, Overflow)
