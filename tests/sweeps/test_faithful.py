"""``faithful`` is part of a key only where it may change a reply, and every difference has a reason and a switch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sweeps.load import build, load
from sweeps.registry import registry
from sweeps.spec import Cell
from sweeps.sweep_file import read_toml

ROOT = Path(__file__).parents[2]
CHECKPOINT = {"sampling": "checkpoint"}


def cell(model: str, faithful: bool | None, **keys: object) -> Cell:
    """Return the cell of a shipped model; None leaves the key out."""
    table = {"data": "d", "models": [model], "scenarios": ["QD"], **keys}
    return build(table | ({} if faithful is None else {"faithful": faithful}), "x.toml").cells()[0]


def fingerprint(model: str, faithful: bool | None, **keys: object) -> str:
    return cell(model, faithful, **keys).fingerprint("1")


def test_keys_without_faithful_are_those_of_earlier_versions() -> None:
    old = {
        ("idefics3-8b", False): "7886cbff8a03bdb9", ("idefics3-8b", True): "10a98bc9dd9fc968",
        ("qwen2.5-vl-7b", False): "a4905ff3220af079", ("qwen2.5-vl-7b", True): "6fe1ea52e265c62a",
        ("gpt-4.1", True): "f6446793ae696276",
    }  # fmt: skip
    for (model, follows), key in old.items():
        keys = CHECKPOINT if follows else {}
        assert fingerprint(model, None, **keys) == fingerprint(model, False, **keys) == key


@pytest.mark.parametrize("model", [name for name, model in registry().items() if model.paper])
def test_of_the_papers_models_a_faithful_checkpoint_run_moves_idefics3_alone(model: str) -> None:
    moved = fingerprint(model, True, **CHECKPOINT) != fingerprint(model, False, **CHECKPOINT)

    assert moved == (model == "idefics3-8b")


def test_end_tokens_move_the_key_of_a_local_model_whose_sampling_is_stated() -> None:
    assert fingerprint("qwen2.5-vl-7b", True) != fingerprint("qwen2.5-vl-7b", False)
    assert fingerprint("gpt-4.1", True) == fingerprint("gpt-4.1", False)
    assert fingerprint("oracle", True) == fingerprint("oracle", False)


def test_a_sweep_makes_its_local_models_faithful_and_an_entry_itself_alone() -> None:
    entry = {"name": "own", "source": "s", "faithful": True}
    table = {"data": "d", "models": ["own", "idefics3-8b", "oracle"], "model": [entry], "scenarios": ["QD"]}

    assert [model.faithful for model in build(table, "x.toml").models] == [True, False, False]
    assert [model.faithful for model in build({**table, "faithful": True}, "x.toml").models] == [True, True, False]
    sweep = load(ROOT / "sweeps/paper.toml")
    assert {model.name for model in sweep.models if not model.faithful} == {"o4-mini", "gpt-4.1", "gpt-5.2"}


def test_every_difference_says_what_why_and_which_switch_undoes_it() -> None:
    for texts in read_toml(ROOT / "sweeps/differences.toml").values():
        assert list(texts) == ["ours", "package", "reason", "switch"]
        assert re.search(r"faithful|sampling|backend|endpoint|^chat|^none$", texts["switch"])
