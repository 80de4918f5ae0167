"""Mutation run: change one operator, constant or branch of a room at a time, and see whether any test notices.

    python -m tests.bench.mutants [--sample 20] [--seed 0] [FOLDER ...]        (`make mutants`)

Works in a copy of the tree. pytest-testmon notes once which fast test runs which function (minutes, for the whole tree), and
then runs only those that a change can reach, in whatever room they are. What they miss, the room's own tests see, all but the
long ones, because testmon does not look into child processes. The sample is drawn by (seed, room). A report, not a verdict: a
survivor may be a change that changes nothing, and CI has the long tests, too.
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
from subprocess import DEVNULL, PIPE
from typing import Any

from tests.test_rooms import MODULES, ORDER, ROOT, imported_names, room

FAST, ALL = "not slow and not long", "not long"  # pytest's marks
LONGEST_TEST_S = {FAST: 60, ALL: 300}
"""Seconds that one test may take: one that a change leaves hanging has noticed it."""
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


def run_tests(tree: Path, marker: str, *options: str) -> tuple[int, str]:
    """Run the tests of a copy that have a mark; return pytest's exit code and what it printed."""
    paths = os.pathsep.join(map(str, [tree, *tree.glob("extras/*")]))
    environment = {**os.environ, "PYTHONPATH": paths, "TESTMON_DATAFILE": f"{tree}.testmondata"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", marker, *options]
    command += ["--timeout", str(LONGEST_TEST_S[marker]), "--timeout-method", "thread"]
    done = subprocess.run(command, cwd=tree, env=environment, stdout=PIPE, stderr=DEVNULL, text=True)
    return done.returncode, done.stdout


def record_tests(tree: Path) -> list[str]:
    """Run the fast tests of a copy, noting which function each one runs; return their files.

    Raises SystemExit if one fails without any change.
    """
    code, printed = run_tests(tree, FAST, "--testmon", "-n", "2", "--dist", "loadfile")
    if code:
        raise SystemExit(f"without any change tests fail; mend them first:\n{printed[-2000:]}")
    listed = run_tests(tree, FAST, "--collect-only")[1]
    return sorted({line.partition("::")[0] for line in listed.splitlines() if "::" in line})


def survives(tree: Path, mutant: Mutant, marker: str, *options: str) -> bool:
    """Return True if the tests of a copy pass with the change."""
    (tree / mutant.path).write_text(mutant.source, encoding="utf-8")
    code, _ = run_tests(tree, marker, "-x", *options)
    shutil.copy(ROOT / mutant.path, tree / mutant.path)
    return code in (0, NO_TESTS)


def run_room(tree: Path, fast: Sequence[str], folder: str, sample: int, seed: int) -> str:
    """Change a sample of a room's code, print what no test noticed, and return the room's row of the table."""
    modules = {name: path for name, path in MODULES.items() if path.with_suffix("").is_relative_to(ROOT / folder)}
    mutants = [mutant for path in sorted(modules.values()) for mutant in list_mutants(path.relative_to(ROOT))]
    chosen = Random(f"{seed}/{folder}").sample(mutants, min(sample, len(mutants)))
    own, note = list_tests(folder, modules), ""
    selected = ("--testmon-nocollect", "--testmon-forceselect", *fast)
    survivors = [mutant for mutant in chosen if survives(tree, mutant, FAST, *selected)]
    if survivors and (code := run_tests(tree, ALL, "-x", *own)[0]) == 0:
        survivors = [mutant for mutant in survivors if survives(tree, mutant, ALL, *own)]
    elif survivors and code != NO_TESTS:
        note = f"without its own tests, which fail without any change (pytest ends with {code}) "
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
    with tempfile.TemporaryDirectory(prefix="mutants-") as copied:
        tree = Path(shutil.copytree(ROOT, f"{copied}/tree", ignore=shutil.ignore_patterns(*NOT_COPIED)))
        fast = record_tests(tree)
        print("| room | mutants | caught | percent | note |\n| --- | ---: | ---: | ---: | --- |", flush=True)
        for folder in options.folders or [name.replace(".", "/") for name in ORDER]:
            print(run_room(tree, fast, folder.rstrip("/"), options.sample, options.seed), flush=True)


if __name__ == "__main__":
    main()
