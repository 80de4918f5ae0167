"""Mutation run: change one operator, constant or branch of a room at a time, and see whether the room's tests notice.

    python -m tests.bench.mutants [--sample 20] [--seed 0] [FOLDER ...]        (`make mutants`)

Works in a copy of the tree. pytest-testmon notes once which fast test runs which function, and then runs only those that a
change can reach. What they miss, the room's slow tests see, all of them, because testmon does not look into child processes.
The sample is drawn by (seed, room). A report, not a verdict: a survivor may be a change that changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from subprocess import DEVNULL
from typing import Any

from tests.test_rooms import MODULES, ORDER, ROOT, imported_names, room

LONGEST_S = 300
"""Seconds that fast tests of a room, or its slow ones, may take; a row names those that take longer without any change."""
NO_TESTS = 5  # pytest's exit code where no test is left to run
NOT_COPIED = (".venv*", "__pycache__", "build", "outputs", "shared")
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
"""Operator -> the one in its place."""
SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "format_spec")


@dataclass(frozen=True)
class Mutant:
    """A file below the root, with one change of a line (``before -> after``) and with its source after it."""

    path: Path
    line: int
    change: str
    source: str


def list_mutants(path: Path) -> Iterator[Mutant]:
    """Yield every change of a file, in the order of its source."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for parent, field, index, old in list(_places(tree)):
        place: Any = parent.__dict__ if index is None else getattr(parent, field)
        at: Any = field if index is None else index
        for new in _replacements(old, field):
            place[at] = ast.copy_location(new, old) if hasattr(old, "lineno") else new
            source = ast.unparse(ast.fix_missing_locations(tree))
            place[at] = old
            change = " -> ".join(" ".join(ast.unparse(node).split())[:100] for node in (old, new))
            yield Mutant(path, getattr(old, "lineno", 0), change, source)


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Yield parent, field, index in that field and node of every node below this one."""
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and field not in SKIPPED_FIELDS and not _is_skipped(child):
                yield node, field, index, child
                yield from _places(child)


def _is_skipped(node: ast.AST) -> bool:
    """Return True for what only checks or tunes, or only people read: messages, logs, help, docstrings, text with a space."""
    match node:
        case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.keyword(arg="help"):
            return True
        case ast.Expr(value=ast.Constant() | ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float())):
            return name.isupper()
        case ast.JoinedStr():
            return any(map(_is_skipped, node.values))
    return isinstance(node, ast.Constant) and " " in str(node.value)


def _replacements(node: ast.AST, field: str) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            yield type(node)(**{**vars(node), "ops": [SWAPPED[type(op)]()]})
        case ast.BoolOp() | ast.BinOp() | ast.AugAssign() if type(node.op) in SWAPPED:
            yield type(node)(**{**vars(node), "op": SWAPPED[type(node.op)]()})
        case ast.UnaryOp():
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1)
        case ast.Constant(value=str()):
            yield ast.Constant(f"{node.value}XX")
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Name() | ast.Call() | ast.Attribute() if field in ("test", "ifs"):
            yield ast.UnaryOp(ast.Not(), node)


def list_tests(folder: str, modules: Mapping[str, Path]) -> list[str]:
    """Return the folder of a room's tests; for a room that is one file or has none, also the tests of rooms that import it."""
    users = {room(name) for name, path in MODULES.items() if imported_names(path) & modules.keys()}
    names = [Path("tests", *name.split(".")) for name in (folder.replace("/", "."), *sorted(users))]
    tests = [str(path) for name in names for path in (name, name.with_name(f"test_{name.name}.py"))]
    existing = [path for path in tests if path != "tests" and (ROOT / path).exists()]
    return existing[:1] if len(modules) > 1 and (ROOT / "tests" / folder).is_dir() else existing


def run_tests(tree: Path, *options: str) -> int:
    """Run tests of a copy until one fails; return pytest's exit code, or 124 after the limit."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [tree, *tree.glob("extras/*")]))}
    command = ["timeout", "--signal=INT", "--kill-after=30", f"{LONGEST_S}", sys.executable, "-m", "pytest"]
    command += ["-qx", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=tree, env=environment, stdout=DEVNULL, stderr=DEVNULL).returncode


def survives(tree: Path, mutant: Mutant, *options: str) -> bool:
    """Return True if the tests of a copy pass with the change; those that hang have noticed it."""
    (tree / mutant.path).write_text(mutant.source, encoding="utf-8")
    code = run_tests(tree, *options)
    shutil.copy(ROOT / mutant.path, tree / mutant.path)
    return code in (0, NO_TESTS)


def run_room(folder: str, sample: int, seed: int) -> str:
    """Change a sample of a room's code, print what no test noticed, and return the room's row of the table."""
    modules = {name: path for name, path in MODULES.items() if path.with_suffix("").is_relative_to(ROOT / folder)}
    mutants = [mutant for path in sorted(modules.values()) for mutant in list_mutants(path.relative_to(ROOT))]
    survivors = chosen = Random(f"{seed}/{folder}").sample(mutants, min(sample, len(mutants)))
    tests, note = list_tests(folder, modules), ""
    with tempfile.TemporaryDirectory(prefix="mutants-") as copied:
        tree = Path(shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(*NOT_COPIED), dirs_exist_ok=True))
        for marker, *testmon in (("not slow and not long", "--testmon"), ("slow and not long",)):
            options = [*tests, "-m", marker, *testmon]
            code = run_tests(tree, *options) if survivors else NO_TESTS
            if code == 0:
                options += [f"{option}-nocollect" for option in testmon]
                survivors = [mutant for mutant in survivors if survives(tree, mutant, *options)]
            elif code != NO_TESTS:
                note += f"without its tests '{marker}', which fail without any change (pytest ends with {code}) "
    for mutant in survivors:
        print(f"{mutant.path}:{mutant.line}: {mutant.change}", file=sys.stderr, flush=True)
    caught = len(chosen) - len(survivors)
    return f"| {folder} | {len(chosen)} | {caught} | {100 * caught / max(1, len(chosen)):.0f} | {note}|"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each room."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="*", help="rooms, as envs or orchestrator/storage; left out, all of the core")
    parser.add_argument("--sample", type=int, default=20, help="mutants of a room")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    options = parser.parse_args(arguments)
    print("| room | mutants | caught | percent | note |\n| --- | ---: | ---: | ---: | --- |", flush=True)
    for folder in options.folders or [name.replace(".", "/") for name in ORDER]:
        print(run_room(folder.rstrip("/"), options.sample, options.seed), flush=True)


if __name__ == "__main__":
    main()
