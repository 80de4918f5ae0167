"""A mistake in a sweep file is one sentence that names file, key and what to type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeps.load import SweepError, build, load
from sweeps.model import STAGES
from sweeps.sweep_file import override_key
from sweeps.validation import REMOVED

SMALL = {"data": "d", "models": ["oracle"], "scenarios": ["QD"]}
POLICY = {"name": "m", "source": "builtin:nosuch", "backend": "builtin"}
WIDTH, TURNS = {"half_width": 1.0}, {"protocol": "oeg-multi"}
MISTAKES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"selektion": {}}, ("unknown key 'selektion'", "did you mean 'selection'")),
    ({"selection": {"limt": 3}}, ("'selection.limt'", "'selection.limit'")),
    ({"limit": 3}, ("unknown key 'limit'", "'selection.limit'")),
    ({"open_ended": {"limit": 3}}, ("'open_ended.limit'", "'open_ended.selection.limit'")),
    ({"judge": {"atempts": 3}}, ("unknown key 'judge.atempts'",)),
    ({"zzzzzz": 3}, ("unknown key 'zzzzzz'",)),
    ({"models": ["oracel"]}, ("no model 'oracel'", "did you mean 'oracle'")),
    ({"scenarios": ["QDD"]}, ("no scenario 'QDD'", "'QD'")),
    ({"conditions": ["icl-9"]}, ("no condition 'icl-9'", "'icl-3'")),
    ({"conditions": ["zzz"]}, ("no condition 'zzz'", "ls conditions")),
    ({"conditions": [["hint"]]}, ("conditions.0", "valid string")),
    ({"conditions": 3}, ("conditions = 3", "must be a list")),
    ({"conditions": [{"hint": True}]}, ("is missing",)),
    ({"models": []}, ("models", "at least 1")),
    ({"models": [{"name": "oracle"}]}, ("models", "'source' is missing")),
    ({"models": ["oracle", "oracle"]}, ("named twice", "'oracle'")),
    ({"model": {"name": "x"}}, ("model = ", "[[model]]")),
    ({"model": [{"name": "m", "source": "a"}, {"name": "m", "source": "b"}], "models": ["m"]}, ("have the name 'm'",)),
    ({"model": [POLICY]}, ("'builtin:nosuch' is not built in", "builtin:oracle")),
    ({"model": [{"name": "m", "source": "builtin:oracle"}]}, ("backend = 'vllm'", "write 'builtin'")),
    ({"seed": True}, ("seed", "valid integer")),
    ({"selection": {"limit": 0}}, ("selection.limit = 0", "greater than or equal to 1")),
    ({"selection": {"ids": {"QD": [True]}}}, ("selection.ids.QD.0", "valid integer")),
    ({"selection": {"ids": {"ROD": [1]}}}, ("ROD", "not among the scenarios")),
    ({"selection": {"ids": {"QD": []}}}, ("selection.ids", "at least one id")),
    ({"protocol": "oegg"}, ("protocol", "'oegg'", "'mcqa'")),
    ({"protocol": []}, ("protocol", "at least 1")),
    ({"protocol": "oeg", "protocols": ["mcqa"]}, ("keep protocol",)),
    ({"protocol": "oeg", "selection": {"limit": 3}}, ("selection", "open_ended.selection")),
    ({"open_ended": {"selection": {"limit": 3}}}, ("open_ended", "protocol")),
    ({"protocol": "oeg", "replicates": 3}, ("replicates", "multiple choice")),
    (TURNS, ('protocol = "oeg-multi" needs a judge',)),
    ({"conditions": ["icl-1"]}, ("icl-1 makes no cell", "ROD, MVP-N")),
    ({"models": ["instructblip-7b"], "conditions": ["history"]}, ("history makes no cell", "one picture a prompt")),
    ({"name": "../../etc"}, ("name", "pattern")),
    ({"data": "ftp://host/x"}, ("data", "gs://")),
    ({"data": "s3://key:secret@bucket/x"}, ("data", "password")),
    ({"revisions": {"m": 3}}, ("revisions",)),
    ({"revisions": {"oracle": "c"}}, ("revisions.oracle", "loads no weights")),
    ({"only": {"models": []}}, ("only = ", "must be a list")),
    ({"only": [{"conditions": ["hint"], "models": ["nobody"]}]}, ("only", "no model 'nobody'", "ls models")),
    ({"only": [{"conditions": ["hint"], "models": 3}]}, ("only.0.models = 3", "must be a list")),
    ({"model": [{"source": "org/mine"}], "models": ["oracle"]}, ("model 1", "'name' is missing")),
    ({"precision": {}}, ("precision", "half_width or difference")),
    ({"precision": WIDTH, "protocol": "oeg"}, ("precision: ", "stops multiple choice")),
    ({"precision": WIDTH, "replicates": 2}, ("precision: ", "replicates repeat whole cells")),
    ({"precision": {"difference": 1.0}}, ("precision: ", "name zero-shot and another")),
    ({"precision": {"difference": 1.0}, "conditions": ["hint", "history"]}, ("precision: ", "name zero-shot and another")),
    ({"sampling": {"checkpoint": True, "temperature": 0.5}}, ("sampling", "leave them out")),
    ({"sampling": {"sampled": True}}, ("sampling", "sampled needs checkpoint = true")),
    ({"judge": {"model": "rule-judg"}}, ("did you mean 'rule-judge'",)),
    ({**TURNS, "judge": {"model": "rule-judge", "instruction": "paper"}},
     ('judge.instruction = "paper" is for one-turn answers',)),
    ({**TURNS, "judge": {"model": "rule-judge"}, "conditions": ["reference"]},
     ("reference does not exist for open-ended generation over several turns",)),
    ({"evidence": {"primary": "hint"}}, ("primary", "name both")),
    ({"evidence": {"primary": "zero-shot"}}, ("primary", "name another condition")),
    ({"cluster": {"max_cost": 9}, "judge": {"model": {"name": "j", "source": "x", "backend": "openai"}}},
     ("cluster.max_cost", "reply_price of j")),
    ({"judge": {"model": ["rule-judge"]}}, ("no judge ['rule-judge']",)),
    ({"model": [{"name": "m", "source": "s", "options": {"worker_cls": "evil.Class"}}]}, ("worker_cls", "unsafe_options")),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_sentence(change: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(SweepError) as error:
        build({**SMALL, **change}, "x.toml")
    assert str(error.value).startswith("x.toml: ") and "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("key", REMOVED)
def test_a_removed_key_is_refused_with_what_is_there_instead(key: str) -> None:
    with pytest.raises(SweepError) as error:
        build({**SMALL, key: {}}, "x.toml")
    assert REMOVED[key] in str(error.value) and "unknown key" not in str(error.value)


def test_a_stored_sweep_is_read_without_what_is_gone() -> None:
    model = {"name": "m", "source": "s", "backend": "vllm", "gpus": 2}
    stored = build({**SMALL, "model": [model], "models": ["m"]}, "x.toml").model_dump(mode="json", exclude_none=True)
    stored["models"][0] |= {"options": {STAGES: 2, "batch": 1}, "batch": False}
    stored |= {"precision": {"half_width": 2.0, "ranking": True}}
    read = build(stored, "sweep.resolved.toml")
    assert read.models[0].options == {"batch": 1} and read.precision is not None


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff", "is not TOML"), (b"a = [" + b"[" * 5_000, "is not TOML"), (b"a = ", "is not TOML")],
)  # fmt: skip
def test_a_file_that_is_none_is_named_with_the_reason(content: bytes, words: str, tmp_path: Path) -> None:
    (file := tmp_path / "s.toml").write_bytes(content)
    for path, reason in ((file, words), (tmp_path / "none.toml", "no sweep file"), (tmp_path, "cannot be read")):
        with pytest.raises(SweepError) as error:
            load(path)
        assert str(path) in str(error.value) and reason in str(error.value)


@pytest.mark.parametrize("path", ["OWNER/NAME", "http://host/v1#m", "{folder}"])
def test_a_model_in_place_of_a_sweep_gets_the_line_that_plays_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "my model").mkdir()
    (tmp_path / "my model/config.json").write_text("{}")
    with pytest.raises(SweepError, match=r"is a model, not a sweep; type `proactive-sweep run --model ") as error:
        load(Path(path.replace("{folder}", str(tmp_path / "my model"))))
    assert "folder" not in path or f"'{tmp_path / 'my model'}'" in str(error.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [("seed", "key=value"), ("=3", "key=value"), ("a. =3", "key=value"), ("seed.x=3", "seed is a value"),
     ("a=" + "[" * 5_000, "nested too deep")],
)  # fmt: skip
def test_an_override_that_is_none_says_what_to_type(override: str, words: str) -> None:
    with pytest.raises(SweepError) as error:
        override_key({"seed": 1}, override)
    assert words in str(error.value)
