"""``[revisions]`` sets the commits of models."""

from __future__ import annotations

from sweeps.load import build

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
