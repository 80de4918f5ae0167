"""``[revisions]`` sets the commits of models."""

from __future__ import annotations

import pytest

from sweeps.load import build
from sweeps.sweep_file import SweepError

ONE, TWO = "1" * 40, "2" * 40


def table(**more: object) -> dict[str, object]:
    return {"name": "s", "data": "d", "models": ["llava-1.5-7b", "uniform"], "scenarios": ["ROD"], **more}


def test_a_pinned_model_has_its_commit_and_so_other_keys() -> None:
    plain, pinned = (build(table(**more), "s.toml") for more in ({}, {"revisions": {"llava-1.5-7b": ONE}}))

    assert [model.revision for model in pinned.models] == [ONE, ""]
    assert pinned.cells()[0].fingerprint("v") != plain.cells()[0].fingerprint("v")


def test_own_models_and_the_judge_are_pinned_too() -> None:
    own = {"models": ["mine"], "model": [{"name": "mine", "source": "org/mine"}], "judge": {"model": "qwen3-8b"}}
    sweep = build(table(**own, protocol="oeg", revisions={"mine": ONE, "qwen3-8b": TWO}), "s.toml")

    assert sweep.models[0].revision == ONE
    assert sweep.judge is not None and sweep.judge.model.revision == TWO


def test_a_model_that_is_not_played_may_stay_in_the_table() -> None:
    assert build(table(models=["uniform"], revisions={"llava-1.5-7b": ONE}), "s.toml").models[0].revision == ""


@pytest.mark.parametrize(
    ("revisions", "words"),
    [
        ({"lava-1.5-7b": ONE}, "there is no model 'lava-1.5-7b'; did you mean 'llava-1.5-7b'?"),
        ({"uniform": ONE}, "revisions.uniform: its backend is builtin"),
        ({"llava-1.5-7b": 7}, "revisions is a table"),
        ([ONE], "revisions is a table"),
    ],
)
def test_a_wrong_table_is_one_sentence(revisions: object, words: str) -> None:
    with pytest.raises(SweepError, match=r"s\.toml: ") as refused:
        build(table(revisions=revisions), "s.toml")
    assert words in str(refused.value) and "\n" not in str(refused.value)
