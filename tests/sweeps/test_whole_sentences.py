"""Refusals of files, overrides, revisions and cells, each whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sweeps import sweep_file
from sweeps.conditions import CONDITIONS, VARIANTS, OwnCondition
from sweeps.model import ModelSpec
from sweeps.pinning import pin_models
from sweeps.protocol import Protocol
from sweeps.requirements import requirement_names, wrong_requirement
from sweeps.sweep_file import SweepError, override_key, read_toml
from sweeps.unplayable import Only, uncallable_reason, unplayable_reason


def refusal_of(call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(SweepError) as refused:
        call(*arguments)
    return str(refused.value)


def model(**entry: Any) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "is not UTF-8 text: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"a = [" + b"[" * 5_000, "holds lists or tables that are nested too deep"),
        (b"a = ", "is not TOML: Invalid value (at end of document)"),
        (b"a = 1\nb", "is not TOML: Expected '=' after a key in a key/value pair (at end of document)"),
    ],
)
def test_a_file_that_is_none_is_named_with_the_reason(content: bytes, reason: str, tmp_path: Path) -> None:
    (file := tmp_path / "s.toml").write_bytes(content)
    assert refusal_of(read_toml, file) == f"{file} {reason}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert refusal_of(read_toml, tmp_path / "zzz") == (
        f"there is no sweep file {tmp_path / 'zzz'}; `proactive-sweep ls sweeps` lists those that ship"
    )
    (tmp_path / "folder").mkdir()
    assert refusal_of(read_toml, tmp_path / "folder").startswith(f"{tmp_path / 'folder'} cannot be read: ")


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("seed", "--set 'seed' must look like key=value, for example --set selection.limit=5"),
        ("a. =3", "--set 'a. =3' must look like key=value, for example --set selection.limit=5"),
        ("seed.x=3", "--set 'seed.x=3': seed is a value, not a table"),
        ("a=" + "[" * 5_000, "--set: a value of 5,000 characters is nested too deep"),
        (
            "models=a,b",
            "--set 'models=a,b' must be a list of quoted names; type --set 'models=[\"a\", \"b\"]'",
        ),
        (
            "x.ids=['a', b]",
            '--set "x.ids=[\'a\', b]" must be a list of quoted names; type --set \'x.ids=["a", "b"]\'',
        ),
    ],
)
def test_an_override_that_is_none_says_what_to_type(override: str, reason: str) -> None:
    assert refusal_of(override_key, {"seed": 1}, override) == reason


@pytest.mark.parametrize(
    ("override", "table"),
    [
        ("seed=2", {"seed": 2}), (" a . b = 2 ", {"seed": 1, "a": {"b": 2}}), ("name=a,b", {"seed": 1, "name": "a,b"}),
        ("models=[]", {"seed": 1, "models": []}), ("data=s3://b/f?x=1", {"seed": 1, "data": "s3://b/f?x=1"}),
        ("measures=mine", {"seed": 1, "measures": "mine"}), ("on=true", {"seed": 1, "on": True}),
    ],
)  # fmt: skip
def test_an_override_sets_its_key(override: str, table: dict[str, Any]) -> None:
    changed: dict[str, Any] = {"seed": 1}
    override_key(changed, override)
    assert changed == table
    assert sweep_file.LISTS == ("models", "scenarios", "conditions", "protocol", "measures")


def test_a_table_of_revisions_is_refused_in_a_sentence() -> None:
    for table in ([], {"m": ""}, {"m": 3}):
        assert refusal_of(pin_models, [model()], table, (), "s.toml") == (
            's.toml: revisions is a table of models and commits: [revisions], then "qwen2.5-vl-7b" = "..."'
        )
    policy = model(backend="builtin", source="builtin:oracle")
    assert refusal_of(pin_models, [policy], {"m": "1"}, (), "s.toml") == (
        "s.toml: revisions.m: its backend is builtin, which loads no weights; leave it out"
    )
    assert refusal_of(pin_models, [model()], {"n": "1"}, (), "s.toml") == (
        "s.toml: revisions: there is no model 'n'; `proactive-sweep ls models` lists them"
    )
    assert pin_models([policy], {"m2": "1"}, ["m2"], "s.toml") == [policy]


ALL = {**CONDITIONS, **VARIANTS}


@pytest.mark.parametrize(
    ("fields", "scenario", "condition", "protocol", "reason"),
    [
        ({}, "ROD", "hint", Protocol.MCQA, ""),
        ({}, "own", "hint", Protocol.OEG, "open-ended answers are judged by the paper's rules, which have none for own"),
        ({}, "own", "hint", Protocol.TOOLS, "tool calls exist only for the paper's scenarios; own defines no functions"),
        ({}, "QD", "icl-1", Protocol.MCQA, "icl-1 exists only for ROD and MVP-N, not for QD"),
        ({"max_images": 1}, "ROD", "history", Protocol.MCQA, "m takes one picture a prompt, but history needs several"),
        ({"limits": ("no pictures",)}, "ROD", "hint", Protocol.MCQA, "m reads text only, but hint shows pictures"),
        (
            {"limits": ("no chat template",)}, "ROD", "history", Protocol.MCQA,
            "m has no chat template and takes one question with one picture, but history asks in another form",
        ),
        (
            {"limits": ("no functions",)}, "ROD", "hint", Protocol.TOOLS,
            'the chat template of m shows no functions; write tools = "text" in its entry',
        ),
        ({"limits": ("no functions",)}, "ROD", "hint", Protocol.MCQA, ""),
        (
            {"architecture": "InstructBlipForConditionalGeneration"}, "ROD", "text-only", Protocol.MCQA,
            "m takes no question without a picture, but text-only shows none",
        ),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_be_played_has_its_reason(
    fields: dict[str, Any], scenario: str, condition: str, protocol: Protocol, reason: str
) -> None:
    assert unplayable_reason(model(**fields), scenario, ALL[condition], (), protocol) == reason


def test_a_condition_is_kept_from_other_models() -> None:
    rule = [Only(conditions=("hint",), models=("n",))]
    assert unplayable_reason(model(), "ROD", ALL["hint"], rule) == "[[only]] excludes m from hint"
    assert unplayable_reason(model(name="n"), "ROD", ALL["hint"], rule) == ""
    assert unplayable_reason(model(), "ROD", ALL["zero-shot"], rule) == ""


@pytest.mark.parametrize(
    ("condition", "obstacle"),
    [
        ("history", "shows earlier turns"), ("icl-1", "shows solved examples"), ("every-frame", "offers no suggestions"),
        ("every-state", "asks for the probabilities of options"),
    ],
)  # fmt: skip
def test_tool_calls_ask_each_turn_afresh(condition: str, obstacle: str) -> None:
    assert uncallable_reason("vllm", "ROD", ALL[condition]) == (
        f"{condition} does not exist for tool calls: it {obstacle}"
    )
    assert uncallable_reason("human", "ROD", ALL["hint"]) == "a person chooses options and calls no functions"
    assert uncallable_reason("vllm", "ROD", ALL["hint"]) == ""


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        ("transformers==5.18.0", ""), ("vllm>=0.30,<0.31", ""),
        (
            "-r x.txt",
            "'-r x.txt' is no requirement such as \"transformers==5.18.0\"; options, files and paths are not read (PIP_INDEX_URL"
            " and PIP_FIND_LINKS name other indexes)",
        ),
        (
            "m @ https://x.test/m.whl",
            "'m @ https://x.test/m.whl' is installed from an address that nobody checked; name a release, or write"
            " unsafe_options = true",
        ),
        ("Ray>=2", "'Ray>=2' must have the same version on driver and workers; leave it out"),
        ("proactive_sweep", "'proactive_sweep' must have the same version on driver and workers; leave it out"),
    ],
)  # fmt: skip
def test_a_requirement_that_is_none_is_refused(requirement: str, reason: str) -> None:
    assert wrong_requirement(["numpy", requirement], unsafe=False) == reason
    assert wrong_requirement([requirement], unsafe=True) == ("" if "@" in requirement else reason)
    assert requirement_names(["Qwen_VL.utils[decord]>1", "a"]) == ("qwen-vl-utils", "a")


REPLICATES = (
    "order, draw, wording and hint_wordings, and names that end like -order1, -seed1 or -wording1, are for replicates"
)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "hint"}, "hint is the name of a condition that ships; choose another"),
        ({"name": "icl-2"}, "icl-2 is the name of a condition that ships; choose another"),
        ({"name": "all"}, "all is the name of a condition that ships; choose another"),
        *(({"name": f"mine-{end}"}, REPLICATES) for end in ("order1", "seed12", "wording3")),
        ({"name": "mine", "order": 1}, REPLICATES), ({"name": "mine", "draw": 1}, REPLICATES),
        ({"name": "mine", "wording": 1}, REPLICATES), ({"name": "mine", "hint_wordings": {"a": "b"}}, REPLICATES),
        ({"name": "mine", "template": "{question}"}, "must hold {question} and {options} once each"),
    ],
)  # fmt: skip
def test_a_condition_of_ones_own_has_a_name_of_its_own(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        OwnCondition(**fields)
    assert refused.value.errors()[0]["msg"] == f"Value error, {reason}"
    assert OwnCondition(name="mine-order1a", hint=True).name == "mine-order1a" and OwnCondition(name="a" * 60)


def test_conditions_are_equal_whatever_their_description_says() -> None:
    hint = ALL["hint"]
    assert hint == hint.model_copy(update={"description": "x"}) and hint != hint.model_copy(update={"name": "x"})
    assert hint != "hint" and hash(hint) == hash("hint")
    assert [(c.many_images, c.shows_pictures, c.hides_picture) for c in map(ALL.get, ("history", "icl-1", "text-only"))] == [
        (True, True, False), (True, True, False), (False, False, True),
    ]  # fmt: skip
