"""The arrows of the house, read from the syntax trees: a room imports only rooms to its left."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("envs", "sweeps", "actors", "orchestrator")
INNER = ("storage", "remote", "data", "placement", "judging", "report", "tracking", "auditing")
"""The rooms of the orchestrator; what lies beside them (plan, score, session, run, cli and so on) ties them together."""
HEAVY = {"ray", "vllm", "torch", "transformers", "polars", "mlflow", "openai", "huggingface_hub", "PIL", "matplotlib"}
DOORS = {
    "PIL": ("envs/render.py", "envs/demo/", "orchestrator/report/", "orchestrator/tracking/", "actors/"),
    "ray": ("actors/worker.py", "orchestrator/run.py", "orchestrator/cluster.py", "orchestrator/data/stager.py"),
    "vllm": ("actors/vllm",),
    "torch": ("actors/hf",),
    "transformers": ("actors/hf",),
    "openai": ("actors/openai",),
    "mlflow": ("orchestrator/tracking/",),
    "huggingface_hub": ("orchestrator/data/hub.py", "actors/vllm", "actors/hf"),
}
"""Heavy package -> where its door may be."""


def modules():
    return [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_rooms_to_its_left(path):
    room = path.relative_to(ROOT).parts[0]
    allowed = ROOMS[: ROOMS.index(room) + 1]

    backwards = {name for name in imported(path) if name.split(".")[0] in ROOMS and name.split(".")[0] not in allowed}

    assert not backwards


@pytest.mark.parametrize("room", INNER)
def test_a_room_of_the_orchestrator_knows_none_to_its_right(room):
    right = tuple(f"orchestrator.{other}" for other in INNER[INNER.index(room) + 1 :])
    names = {name for path in (ROOT / "orchestrator" / room).rglob("*.py") for name in imported(path)}

    assert {name for name in names if name.startswith(right)} == set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_heavy_package_has_one_door(path):
    place = path.relative_to(ROOT).as_posix()
    used = {name.split(".")[0] for name in imported(path)} & DOORS.keys()

    assert {name for name in used if not place.startswith(DOORS[name])} == set()


def test_the_game_and_the_sweeps_need_no_heavy_package():
    code = f"import sys, envs, envs.samples, sweeps.load; print(sorted(set({sorted(HEAVY)!r}) & sys.modules.keys()))"

    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
