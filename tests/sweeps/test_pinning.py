"""``[revisions]`` sets the commits of models, and is written into a sweep file without touching the rest of it."""

from __future__ import annotations

import tomllib

import pytest

from sweeps.load import build
from sweeps.pinning import write_revisions
from sweeps.sweep_file import SweepError

ONE, TWO = "1" * 40, "2" * 40
MINE = """# Why do these models ask?
models = ["llava-1.5-7b", "uniform"]   # two

[selection]
limit = 10  # a few


"""


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


def test_a_new_table_is_added_at_the_end_and_the_rest_stays() -> None:
    edited = write_revisions(MINE, {"llava-1.5-7b": ONE, "mine": TWO}, "s.toml")

    assert edited.startswith(MINE.rstrip("\n") + "\n\n[revisions]  #")
    assert edited.endswith(f'\n"llava-1.5-7b" = "{ONE}"\nmine = "{TWO}"\n')
    assert tomllib.loads(edited) == {**tomllib.loads(MINE), "revisions": {"llava-1.5-7b": ONE, "mine": TWO}}


def test_lines_of_the_table_are_replaced_where_they_are() -> None:
    text = "a = 1\r\n[ revisions ]\r\n'x.y' = 'main'  # mine\r\n# end\r\n\r\n[selection]\r\nlimit = 1\r\nmine = 2\r\n"
    edited = write_revisions(text, {"x.y": ONE, "mine": TWO}, "s.toml")

    assert edited == text.replace("'main'", f'"{ONE}"').replace("# end\r\n", f'# end\r\nmine = "{TWO}"\r\n')


@pytest.mark.parametrize(
    "text", ['revisions = { a = "b" }\n', 'revisions."a" = "b"\n', 'a = """\n[revisions]\nmine = "x"\n"""\n']
)
def test_a_table_in_another_form_is_left_alone(text: str) -> None:
    with pytest.raises(SweepError, match="write them yourself: revisions = "):
        write_revisions(text, {"mine": ONE}, "s.toml")
