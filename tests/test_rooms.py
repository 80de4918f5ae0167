"""The import order of the rooms, read from the syntax trees: a room imports only rooms above it in ``ORDER``, no file itself."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = (
    "envs",
    "sweeps",
    "actors.text",
    "actors.node",
    "actors.engine",
    "actors.playing",
    "actors.trial",
    "actors.worker",
    "orchestrator.storage",
    "orchestrator.object_store",
    "orchestrator.datasets",
    "orchestrator.planning",
    "orchestrator.precision",
    "orchestrator.inspection",
    "orchestrator.audit",
    "orchestrator.report.statistics",
    "orchestrator.gold",
    "orchestrator.judging",
    "orchestrator.scheduling",
    "orchestrator.report.scores",
    "orchestrator.report.run_data",
    "orchestrator.report.read_run",
    "orchestrator.report.paper",
    "orchestrator.report.measures",
    "orchestrator.report.tables",
    "orchestrator.report.figures",
    "orchestrator.report.comparisons",
    "orchestrator.report.html",
    "orchestrator.film_strip",
    "orchestrator.merging",
    "orchestrator.export",
    "orchestrator.tracking",
    "orchestrator.monitoring",
    "orchestrator.execution",
    "orchestrator.flip_rate",
    "orchestrator.view",
    "orchestrator.api",
    "orchestrator.cli",
)
"""Every room of the product, ground first; CONTRIBUTING.md says what each is for."""
MOST_IMPORTS = 20
ROOMLESS = {"actors", "orchestrator", "orchestrator.__main__", "orchestrator.report"}
"""Folders that only hold rooms, and the two files that start the command line."""
HEAVY = {"ray", "vllm", "torch", "transformers", "polars", "mlflow", "openai", "huggingface_hub", "PIL", "matplotlib"}
DOORS = {
    "PIL": ("envs/render.py", "orchestrator/report/", "orchestrator/tracking/", "actors/"),
    "ray": (
        "actors/worker.py",
        "orchestrator/datasets/node_staging.py",
        "orchestrator/execution/driver.py",
        "orchestrator/execution/cluster_view.py",
        "orchestrator/execution/model_packages.py",
        "orchestrator/execution/ray_cluster.py",
        "orchestrator/execution/worker_pool.py",
    ),
    "vllm": ("actors/engine/vllm/",),
    "torch": ("actors/engine/hf/",),
    "transformers": ("actors/engine/hf/",),
    "aiohttp": ("orchestrator/datasets/sources.py", "orchestrator/view/"),
    "openai": ("actors/engine/openai/",),
    "pynvml": ("actors/node/nvml.py",),
    "mlflow": ("orchestrator/tracking/",),
    "huggingface_hub": ("orchestrator/datasets/", "actors/engine/vllm/", "actors/engine/hf/"),
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


@cache
def import_nodes(text: str) -> list[ast.stmt]:
    """The import statements of a file's text, at any place."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_names(path: Path, modules=MODULES) -> set[str]:
    """Dotted names that a file imports, lazily and for types too, of its own modules down to the module."""
    names: set[str] = set()
    for node in import_nodes(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path}: imports name the module in full"
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (full & modules.keys()) | ({node.module} if full - modules.keys() else set())
    return names


def room(name: str) -> str:
    """Return the innermost room of a module; empty for the folders that only hold rooms, and for the start of the program."""
    return max((room for room in ORDER if name == room or name.startswith(f"{room}.")), key=len, default="")


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A circle of the graph; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def backward(module: str, modules=MODULES) -> set[str]:
    """The imports of a module that are of rooms below its own, or the module itself where it stands in no room."""
    if not room(module):
        return set() if module in ROOMLESS else {module}
    allowed = ORDER[: ORDER.index(room(module)) + 1]
    return {name for name in imported_names(modules[module], modules) if room(name) and room(name) not in allowed}


def file_circle(modules=MODULES) -> list[str]:
    """Files of which each imports the next one, at any place: at the top, in a function, or for types."""
    graph = {name: imported_names(path, modules) & modules.keys() - {name} for name, path in modules.items()}
    return circle(graph)


def strangers(names) -> list[str]:
    """Python files of the product that stand beside its four folders.

    ``proactive_sweep`` is a name by which verifiers finds a taskset, and holds the package that ``init --from package`` copies.
    """
    tops = ("envs/", "sweeps/", "actors/", "orchestrator/", "proactive_sweep/", "extras/", "tests/")
    return [name for name in names if name.endswith(".py") and not name.startswith(tops)]


def test_a_room_imports_only_rooms_above_it():
    assert {module: names for module in MODULES if (names := backward(module))} == {}


EXTRAS = ("proactive_demo", "proactive_learn", "proactive_operating", "proactive_bridges", "proactive_people")
"""Packages of extras/, which the core runs without."""


def test_the_core_imports_no_extra():
    names = {name for path in MODULES.values() for name in imported_names(path)}

    assert {name for name in names if name.startswith(EXTRAS)} == set()


@pytest.mark.parametrize("package", EXTRAS)
def test_an_extra_imports_no_other(package):
    folder = ROOT / "extras" / package.removeprefix("proactive_") / package
    used = {name for path in folder.rglob("*.py") for name in imported_names(path) if name.startswith(EXTRAS)}

    assert {name for name in used if not name.startswith(package)} == set()


def test_every_room_is_there():
    assert {room(module) for module in MODULES} == {*ORDER, ""}


def test_no_file_needs_itself():
    assert file_circle() == []


def test_no_python_file_stands_beside_the_rooms():
    tops = [
        path
        for path in ROOT.iterdir()
        if not path.name.startswith(".") and path.name not in ("build", "outputs", "shared")
    ]
    files = [path for top in tops for path in (top.rglob("*.py") if top.is_dir() else [top])]

    assert len(files) > 200
    assert strangers(path.relative_to(ROOT).as_posix() for path in files) == []


BACKWARDS = {
    "of a name between rooms": (
        "orchestrator.planning.planted",
        "from orchestrator.report.scores.metrics import score",
    ),
    "lazily between folders": ("sweeps.planted", "def f():\n    from orchestrator.planning.plan import Plan"),
    "for types alone": ("envs.planted", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sweeps.spec"),
    "a file in no room": ("orchestrator.planted", "import envs"),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_planted_arrow_backwards_is_found(name, tmp_path):
    module, text = BACKWARDS[name]
    (tmp_path / "planted.py").write_text(text)

    assert backward(module, {**MODULES, module: tmp_path / "planted.py"})


def test_an_arrow_forwards_is_none(tmp_path):
    (tmp_path / "planted.py").write_text(
        "import envs\nfrom sweeps.spec import Cell\nfrom orchestrator.storage import lock"
    )
    assert not backward(
        "orchestrator.report.html.planted", {**MODULES, "orchestrator.report.html.planted": tmp_path / "planted.py"}
    )


@pytest.mark.parametrize(
    "back",
    [
        "from orchestrator.report import planted_one",
        "def later():\n    import orchestrator.report.planted_one",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import orchestrator.report.planted_one",
    ],
)
def test_a_planted_circle_of_files_is_found(back, tmp_path):
    first, second = "orchestrator.report.planted_one", "orchestrator.report.planted_two"
    modules = {**MODULES, first: tmp_path / "one.py", second: tmp_path / "two.py"}
    modules[first].write_text(f"import {second}")
    modules[second].write_text("import envs")
    assert file_circle(modules) == []

    modules[second].write_text(back)
    assert set(file_circle(modules)) == {first, second}


def test_no_file_imports_more_than_twenty_of_ours():
    counts = {module: len(imported_names(path) & MODULES.keys() - {module}) for module, path in MODULES.items()}

    assert {module: count for module, count in counts.items() if count > MOST_IMPORTS} == {}


def test_a_relative_import_is_refused(tmp_path):
    (tmp_path / "planted.py").write_text("from ..report import metrics")
    with pytest.raises(AssertionError, match="name the module in full"):
        backward("orchestrator.storage.planted", {**MODULES, "orchestrator.storage.planted": tmp_path / "planted.py"})


def test_a_new_top_level_file_is_found():
    assert strangers(["helpers.py", "envs/a.py", "training/run.py", "docs/a.md"]) == ["helpers.py", "training/run.py"]


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_a_heavy_package_has_one_door():
    pairs = {
        (name.split(".")[0], path.relative_to(ROOT).as_posix())
        for path in MODULES.values()
        for name in imported_names(path)
    }

    assert {(name, path) for name, path in pairs if name in DOORS and not path.startswith(DOORS[name])} == set()


def test_the_game_and_the_sweeps_need_no_heavy_package():
    code = f"import sys, envs, envs.samples, sweeps.load; print(sorted(set({sorted(HEAVY)!r}) & sys.modules.keys()))"

    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert process.stdout.strip() == "[]"
