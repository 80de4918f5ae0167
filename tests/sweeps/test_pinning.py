"""``[revisions]`` sets the commits of models."""

from __future__ import annotations

from sweeps.load import build

ONE, TWO = "1" * 40, "2" * 40


def table(**more: object) -> dict[str, object]:
    return {"name": "s", "data": "d", "models": ["llava-1.5-7b", "uniform"], "scenarios": ["ROD"], **more}


def test_models_and_the_judge_are_pinned_and_have_other_keys() -> None:
    model, judge = {"name": "mine", "source": "org/mine"}, {"model": "qwen3-8b"}
    own = {"models": ["mine", "uniform"], "model": [model], "judge": judge}
    commits = {"mine": ONE, "qwen3-8b": TWO, "llava-1.5-7b": ONE}  # the last one is not played
    plain, pinned = (build(table(**own, protocol="oeg", **more), "s.toml") for more in ({}, {"revisions": commits}))

    assert [model.revision for model in pinned.models] == [ONE, ""]
    assert pinned.judge is not None and pinned.judge.model.revision == TWO
    assert pinned.cells()[0].fingerprint("v") != plain.cells()[0].fingerprint("v")
