"""Names, models and decoding in the words that commands print."""

import pytest

from sweeps.checkpoint import parse_config, positive
from sweeps.load import SweepError, build, build_cell, find_models
from sweeps.model import ModelSpec
from sweeps.registry import describe_code, describe_requirements, judges, registry
from sweeps.sampling import Sampling
from sweeps.spec import Protocol
from sweeps.validation import find_name


@pytest.mark.parametrize(
    ("sampling", "description"),
    [
        (Sampling(), "greedy"), (Sampling(temperature=0.7), "sampled at temperature 0.7"),
        (Sampling(checkpoint=True), "as each checkpoint's generation_config says"),
        (Sampling(checkpoint=True, sampled=True), "as each checkpoint's generation_config says, always sampled"),
    ],
)  # fmt: skip
def test_decoding_is_described(sampling, description):
    assert sampling.description == description


def test_the_checkpoints_own_decoding_is_in_the_key_only_if_used():
    assert "checkpoint" not in Sampling().identity and Sampling(checkpoint=True).identity["checkpoint"] is True
    assert "sampled" not in Sampling(checkpoint=True).identity


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), (1, 1), (0, 0), (-1, 0), (True, 0), (3.0, 0), ("3", 0), (None, 0)]
)
def test_a_count_of_a_configuration_is_a_positive_whole_number(value, number):
    assert positive({"n": value}, "n") == number and positive({}, "n") == 0


@pytest.mark.parametrize(
    ("content", "config"), [(b'{"a": 1}', {"a": 1}), (b"[1]", None), (b"{", None), (b"[" * 99_999, None)]
)
def test_a_configuration_is_an_object(content, config):
    assert parse_config(content) == config


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hnit", "x: there is no condition 'hnit'; did you mean 'hint'?"),
        ("zzz", "x: there is no condition 'zzz'; `proactive-sweep ls conditions` lists them"),
        (3, "x: a condition is given by its name in quotes, not by 3"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(name, reason):
    assert find_name("hint", ["hint", "history"], "condition", "x") == "hint"
    with pytest.raises(SweepError) as error:
        find_name(name, ["hint", "history"], "condition", "x")
    assert str(error.value) == reason


def test_models_of_a_command_line_are_those_that_ship_and_judges_only_for_judging():
    assert [model.name for model in find_models(["oracle"])] == ["oracle"]
    assert {model.name for model in find_models([])} == set(registry())
    assert {model.name for model in find_models([], judging=True)} == set(registry()) | set(judges())
    only_judges = sorted(set(judges()) - set(registry()))
    with pytest.raises(SweepError):
        find_models(only_judges[:1])
    assert find_models(only_judges[:1], judging=True)[0].name == only_judges[0]


def test_a_cell_of_a_command_line_needs_no_model():
    cell = build_cell("QuickDraw", "hint")

    assert (cell.model.name, cell.scenario, cell.condition.name, cell.protocol) == ("any", "QD", "hint", Protocol.MCQA)
    assert build_cell("QD", "hint", "oracle").model.name == "oracle"
    assert build_cell("QD", "hint", ModelSpec(name="m", source="s")).model.name == "m"
    with pytest.raises(SweepError, match=r"^icl-1 exists only for ROD and MVP-N, not for QD$"):
        build_cell("QD", "icl-1")


def test_what_a_model_brings_along_is_named():
    plain = ModelSpec(name="m", source="s")

    assert describe_code(plain) == "" == describe_requirements(plain)
    assert (
        describe_code(plain.model_copy(update={"trust_remote_code": True}))
        == "m may run code of its own (trust_remote_code)"
    )
    assert (
        describe_requirements(plain.model_copy(update={"requirements": ("a==1", "b==2")}))
        == "m installs its own a==1, b==2"
    )


def test_players_and_judges_are_decoded_each_by_their_own_table():
    judge = {"model": "rule-judge", "sampling": {"max_tokens": 77}}
    table = {"data": "d", "models": ["oracle"], "judge": judge, "protocols": ["mcqa", "oeg"]}
    sweep = build({**table, "open_ended": {"sampling": {"max_tokens": 55}}, "sampling": {"max_tokens": 33}}, "x.toml")

    assert [sampling.max_tokens for sampling in sweep.samplings("rule-judge")] == [77]
    assert [sampling.max_tokens for sampling in sweep.samplings("oracle")] == [33, 55]
    assert sweep.selection_for(Protocol.OEG) is sweep.open_ended.selection and sweep.is_judged
    assert sweep.selection_for(Protocol.MCQA) is sweep.selection


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"sampling": {"max_token": 3}},
            "x.toml: unknown key 'sampling.max_token'; did you mean 'sampling.max_tokens'?",
        ),
        ({"limit": 3}, "x.toml: unknown key 'limit'; did you mean 'selection.limit'?"),
        ({"zzzzzz": 3}, "x.toml: unknown key 'zzzzzz'"),
        ({"seed": -0.5}, "x.toml: seed = -0.5: input should be a valid integer"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_of_any_table(changed, reason):
    with pytest.raises(SweepError) as error:
        build({"data": "d", "models": ["oracle"], **changed}, "x.toml")
    assert str(error.value) == reason


def test_a_key_like_no_other_is_left_without_a_guess():
    with pytest.raises(SweepError) as error:
        build({"data": "d", "models": ["oracle"], "zzzzzz": 3}, "x.toml")
    assert str(error.value) == "x.toml: unknown key 'zzzzzz'"
