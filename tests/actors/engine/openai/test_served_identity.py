"""Services that are asked for the identity of their model, and identities of one model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.engine.openai.served_identity import Probe, describe_other_model, is_checked, same_model, to_identity
from sweeps.spec import ModelSpec

URL = "http://127.0.0.1:9/v1"


def model(batch: bool = False, **endpoint: Any) -> ModelSpec:
    return ModelSpec(name="m", source="s", backend="openai", batch=batch, endpoint=endpoint)


@pytest.mark.parametrize(
    ("entry", "checked"),
    [
        (model(base_url=URL, key_env=""), True),
        (model(base_url=URL, key_env="KEY"), False),
        (model(base_url=URL, key_env="KEY", server="vllm"), True),
        (model(base_url=URL, key_env="KEY", server="llama.cpp"), True),
        (model(key_env=""), False),
        (model(key_env="KEY", server="vllm"), False),
        (model(base_url=URL, key_env="", decoding=False), False),
        (model(base_url=URL, key_env="", batch=True), False),
    ],
)
def test_a_service_of_ones_own_is_checked(entry: ModelSpec, checked: bool) -> None:
    assert is_checked(entry) is checked


def identity(*probes: tuple[int, dict[str, float], str]) -> str:
    return to_identity([Probe(*probe) for probe in probes])


def test_an_identity_is_one_line_of_json() -> None:
    assert identity((9, {"A": 0.5}, "A\n")) == 'served:[[9, {"A": 0.5}, "A\\n"]]'


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (((9, {"A": 0.5, "B": 0.5}, "A"), (7, {"C": 1.0}, "C")), True),
        (((9, {"A": 0.54, "B": 0.46}, "B"), (7, {"C": 1.0}, "C")), True),
        (((9, {"A": 0.56, "B": 0.44}, "A"), (7, {"C": 1.0}, "C")), False),
        (((9, {"A": 0.5, "B": 0.5}, "A"), (7, {"C": 0.94, "D": 0.06}, "C")), False),
        (((9, {"A": 0.5, "B": 0.5}, "A"), (7, {"C": 0.92}, "C")), True),  # half of 0.08 has moved
        (((8, {"A": 0.5, "B": 0.5}, "A"), (7, {"C": 1.0}, "C")), False),
        (((9, {"A": 0.5, "B": 0.5}, "A"), (8, {"C": 1.0}, "C")), False),
        (((9, {"A": 0.5, "B": 0.5}, "A"),), False),
        (((9, {}, "X"), (7, {"C": 1.0}, "C")), True),  # one text is the same
        (((9, {}, "X"), (7, {}, "Y")), False),
        (((9, {}, "A"), (7, {}, "Y")), True),
    ],
)
def test_equal_weights_move_little(now: tuple[tuple[int, dict[str, float], str], ...], same: bool) -> None:
    before = identity((9, {"A": 0.5, "B": 0.5}, "A"), (7, {"C": 1.0}, "C"))

    assert same_model(before, identity(*now)) is same and same_model(identity(*now), before) is same


def test_weights_of_a_folder_and_of_a_service_are_never_compared() -> None:
    served = identity((9, {}, "A"))

    assert not same_model("sha256:1", served) and not same_model(served, "sha256:1")
    assert same_model("sha256:1", "sha256:1") and not same_model("sha256:1", "sha256:2")
    listed = json.loads(served.removeprefix("served:"))
    assert not same_model(served, json.dumps(listed)), "the prefix belongs to it"


def test_another_model_is_one_sentence() -> None:
    assert describe_other_model(model(base_url=URL), "this run began with") == (
        f"under the name s, {URL} serves another model than this run began with; start the server with"
        " the earlier model and run the same command again, or pass another --output"
    )
