"""The import order of the rooms, read from the syntax trees: a room imports only rooms above it in ``ORDER``, no file itself."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = (
    "envs",
    "sweeps",
    "actors",
    "orchestrator.storage",
    "orchestrator.object_store",
    "orchestrator.datasets",
    "orchestrator.planning",
    "orchestrator.inspection",
    "orchestrator.audit",
    "orchestrator.judging",
    "orchestrator.scheduling",
    "orchestrator.report",
    "orchestrator.tracking",
    "orchestrator.monitoring",
    "orchestrator.execution",
    "orchestrator.cli",
)
"""Every room of the product, ground first; CONTRIBUTING.md says what each is for."""
HEAVY = {"ray", "vllm", "torch", "transformers", "polars", "mlflow", "openai", "huggingface_hub", "PIL", "matplotlib"}
DOORS = {
    "PIL": ("envs/render.py", "envs/demo/", "orchestrator/report/", "orchestrator/tracking/", "actors/"),
    "ray": (
        "actors/worker.py",
        "orchestrator/datasets/node_staging.py",
        "orchestrator/execution/driver.py",
        "orchestrator/execution/model_trial.py",
        "orchestrator/execution/ray_cluster.py",
    ),
    "vllm": ("actors/vllm",),
    "torch": ("actors/hf", "actors/embedded/training/"),
    "transformers": ("actors/hf", "actors/embedded/training/"),
    "openai": ("actors/openai",),
    "pynvml": ("actors/nvml.py",),
    "mlflow": ("orchestrator/tracking/",),
    "huggingface_hub": ("orchestrator/datasets/hub.py", "actors/vllm", "actors/hf"),
}
"""Heavy package -> where its door may be."""


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    name_of(path): path
    for top in ("envs", "sweeps", "actors", "orchestrator")
    for path in sorted((ROOT / top).rglob("*.py"))
}


def imported(path: Path, lazy: bool = True) -> set[str]:
    """Dotted names that a file imports, of its own modules down to the module; without ``lazy`` those of its top level."""
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if lazy else executed(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (full & MODULES.keys()) | ({node.module} if full - MODULES.keys() else set())
    return names


def executed(tree: ast.Module):
    """The nodes that run when the module is imported: no function's body, and nothing under ``if TYPE_CHECKING``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def room(name: str) -> str:
    """The room that a module stands in; empty for ``orchestrator`` itself, whose two files only start the command line."""
    return next((room for room in ORDER if name == room or name.startswith(f"{room}.")), "")


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A circle of the graph; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_rooms_above_it(module):
    if not room(module):
        assert module in ("orchestrator", "orchestrator.__main__"), "every module stands in a room of ORDER"
        return
    allowed = ORDER[: ORDER.index(room(module)) + 1]

    assert {name for name in imported(MODULES[module]) if room(name) and room(name) not in allowed} == set()


def test_every_room_is_there():
    assert {room(module) for module in MODULES} == {*ORDER, ""}


def test_no_file_needs_itself():
    graph = {name: imported(path, lazy=False) & MODULES.keys() - {name} for name, path in MODULES.items()}

    assert circle(graph) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


@pytest.mark.parametrize("module", MODULES)
def test_a_heavy_package_has_one_door(module):
    place = MODULES[module].relative_to(ROOT).as_posix()
    used = {name.split(".")[0] for name in imported(MODULES[module])} & DOORS.keys()

    assert {name for name in used if not place.startswith(DOORS[name])} == set()


def test_the_game_and_the_sweeps_need_no_heavy_package():
    code = f"import sys, envs, envs.samples, sweeps.load; print(sorted(set({sorted(HEAVY)!r}) & sys.modules.keys()))"

    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
