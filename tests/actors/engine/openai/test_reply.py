"""A service's answer: read by the protocol, bounded, and refused with the field that is wrong."""

import json

import pytest

from actors.engine.openai.reply import (
    Choice,
    Tokens,
    UnreadableAnswer,
    bounded_call,
    parse_first_choice,
    parse_object,
    read_usage,
)


def answer(content="A", finish="stop", **message):
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}]}


def call(name="go", arguments="{}"):
    return {"function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        (answer(), Choice("A", "", "stop", ())),
        (answer(None), Choice("", "", "stop", ())),
        *((answer(finish=finish), Choice("A", "", "stop", ())) for finish in ("eos_token", "end_turn", "stop_sequence")),
        *((answer(finish=finish), Choice("A", "", "length", ())) for finish in ("length", "max_tokens")),
        (answer("", "content_filter"), Choice("", "content_filter", "content_filter", ())),
        (answer(None, refusal="I will not."), Choice("", "I will not.", "content_filter", ())),
        (answer("half", "content_filter", refusal="No."), Choice("half", "No.", "content_filter", ())),
        (answer("A", tool_calls=[call()]), Choice("A", "", "stop", ())),
    ],
)  # fmt: skip
def test_a_choice_is_a_text_or_a_refusal(fields, choice):
    assert parse_first_choice(fields) == choice


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
def test_calls_of_offered_functions_are_read(finish):
    calls = [call(arguments=text) for text in ('{"way": "left"}', "", "[1]")]

    assert parse_first_choice(answer(None, finish, tool_calls=calls), tools=True) == Choice(
        "", "", "stop", (("go", {"way": "left"}), ("go", {}), ("go", "[1]"))
    )
    many = parse_first_choice(answer(None, finish, tool_calls=[call()] * 17), tools=True)
    assert many.calls == (("go", {}),) * 16


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "choices: Field required"),
        ({"choices": []}, "choices: List should have at least 1 item after validation, not 0"),
        ({"choices": [3]}, "answer: Input should be a valid dictionary or instance of _Choice"),
        (answer(3), "message.content: Input should be a valid string"),
        (answer(finish=None), "finish_reason is None"),
        (answer(finish="x" * 50), f"finish_reason is '{'x' * 39}"),
        (answer(finish=["stop"]), "finish_reason is a list"),
        (answer(finish="tool_calls"), "finish_reason is 'tool_calls'"),
        (answer(None, tool_calls=[call()]), "it calls a tool, but the request offered no tools"),
        (answer(None, function_call={"name": "go"}), "it calls a tool, but the request offered no tools"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused_with_its_field(fields, reason):
    with pytest.raises(UnreadableAnswer) as error:
        parse_first_choice(fields)
    assert str(error.value) == reason


def test_calls_without_a_list_of_functions_are_refused():
    with pytest.raises(UnreadableAnswer, match=r"^tool_calls: "):
        parse_first_choice(answer(None, tool_calls="go"), tools=True)
    with pytest.raises(UnreadableAnswer, match=r"^finish_reason is 'tool_calls'$"):
        parse_first_choice(answer(None, "tool_calls"), tools=True)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("  ", {}),
        ('{"a": null, "b": "x", "c": 1.5, "d": true}', {"a": None, "b": "x", "c": 1.5, "d": True}),
        ('{"a": {}}', '{"a": {}}'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ("no json", "no json"),
        ("[" * 9_000, "[" * 9_000),
        (json.dumps({"a": "x" * 9_991}), {"a": "x" * 9_991}),
        (json.dumps({"a": "x" * 9_992}), json.dumps({"a": "x" * 9_992})[:10_000]),
    ],
)  # fmt: skip
def test_arguments_are_a_flat_object_or_their_text(arguments, values):
    assert bounded_call("n" * 101, arguments) == ("n" * 100, values)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, Tokens()),
        ("many", Tokens(invalid="usage is not an object")),
        ({"prompt_tokens": 7, "completion_tokens": 3}, Tokens(7, 3, "", None)),
        ({"prompt_tokens": 10**9}, Tokens(10**9, 0, "", None)),
        ({"prompt_tokens": 10**9 + 1}, Tokens(0, 0, "prompt_tokens is 1000000001", None)),
        ({"prompt_tokens": -1, "completion_tokens": 3}, Tokens(0, 3, "prompt_tokens is -1", None)),
        ({"prompt_tokens": "7", "completion_tokens": [3]},
         Tokens(0, 0, "prompt_tokens is '7', completion_tokens is a list", None)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 7}}, Tokens(7, 0, "", 7)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0}}, Tokens(7, 0, "", 0)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 8}}, Tokens(7, 0, "", None)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": -1}}, Tokens(7, 0, "", None)),
        ({"prompt_tokens": 7, "prompt_tokens_details": 3}, Tokens(7, 0, "", None)),
    ],
)  # fmt: skip
def test_token_counts_are_whole_numbers_or_described(usage, tokens):
    assert read_usage({"usage": usage}) == tokens


def test_a_response_is_a_json_object():
    assert parse_object(b'{"a": [1]}') == {"a": [1]}
    for content, reason in ((b"[1]", "JSON that is not an object"), (b"[" * 100_000, "JSON nested too deep")):
        with pytest.raises(UnreadableAnswer, match=f"^{reason}$"):
            parse_object(content)
    with pytest.raises(ValueError, match="Expecting value"):
        parse_object(b"gateway timeout")
