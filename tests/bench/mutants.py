"""Mutation run: change one operator, constant or branch of a module at a time, and see whether its fast tests notice.

    python -m tests.bench.mutants [--sample 60] [--room 0] [--seed 0] [MODULE or folder ...]        (`make mutants`)

Every mutant runs in a forked child (``mutant_session``): no file is touched, and no result depends on what ran before. A
child runs the tests that call the changed function (``called``), quickest first, up to the first that fails. The sample is
drawn by (seed, module), and Hypothesis draws the same examples each time.

Own code, because the libraries do not fit (tried on Python 3.11): mutmut 3.8 leaves constants of a module and everything
decorated as it is (``COVERED``, ``@property``, ``@cached_property``: half of the plan); cosmic-ray 8.7 rewrites files of the
working tree, starts a new interpreter for each mutant and draws no sample; mutatest 2.0 ends at Python 3.8.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from random import Random
from types import CodeType

from tests.bench.called import Called, import_name
from tests.bench.mutant_session import MutantSession, Survived, cpu_limit, fork, run_in_pool, slowdown
from tests.bench.mutations import Mutant, compile_mutant, mutants_of

ROOT = Path(__file__).parents[2]
SETTINGS = Path(__file__).with_suffix(".toml")
PLUGINS = ("_hypothesis_pytestplugin", "pytest_timeout")
PRELOADED = (
    "pytest",
    "hypothesis",
    "hypothesis.strategies",
    "numpy",
    "scipy.stats",
    "polars",
    "pydantic",
    "PIL.Image",
    *PLUGINS,
)
"""Imported once, before the children are forked: packages only, none of ours."""
TIMEOUT_S = 120
"""Seconds of one test on an idle machine: a mutant that waits for a pipe or a lock uses no CPU time."""
ENVIRONMENT = {"CI": "true", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
ENVIRONMENT["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"


@dataclass(frozen=True)
class Suite:
    """A room's modules and the fast tests that must notice a change in them."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    deselect: tuple[str, ...] = ()
    """Files and tests that take long: they start processes or load models."""
    signatures: tuple[str, ...] = ()
    """Files of tests that read the defaults of functions without calling them."""


class Loader(SourceFileLoader):
    """Gives a module the code of a mutant."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class Finder(MetaPathFinder):
    """Finds one module, the changed one."""

    def __init__(self, name: str, loader: Loader) -> None:
        self.name, self.loader = name, loader

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, self.loader) if fullname == self.name else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the survivors; the exit status is 1 where unchanged code fails all its tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("paths", nargs="*", help="modules or folders; left out, all of mutants.toml")
    parser.add_argument("--sample", type=int, default=60, help="mutants of a module at most; 0: all")
    parser.add_argument("--room", type=int, default=0, help="mutants of a room at most, after --sample; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="children at a time")
    options = parser.parse_args(arguments)
    suites, ignored, _ = read_settings()
    if unknown := [path for path in options.paths if not any(_within(m, [path]) for s in suites for m in s.modules)]:
        sys.exit(f"{unknown[0]} is none of the modules of {SETTINGS.relative_to(ROOT)}")
    os.environ.update(ENVIRONMENT)
    os.chdir(ROOT)
    for name in PRELOADED:
        import_module(name)
    _profile()
    rows: list[tuple[str, str, int, list[Mutant]]] = []
    for entry in _outdated(ignored):
        print(f"mutants.toml lists as equivalent what the code no longer holds: {entry}", file=sys.stderr)
    for suite in suites:
        chosen = [m for m in suite.modules if not options.paths or _within(m, options.paths)]
        if chosen:
            mutants = _draw(suite.name, chosen, ignored, options.sample, options.room, options.seed)
            rows += _run_suite(suite, mutants, options.jobs)
    _report(rows)
    return 0


def read_settings() -> tuple[list[Suite], set[tuple[str, str, str]], list[str]]:
    """Return the suites, the equivalent mutants as (module, function, change), and the paths that are left out."""
    table = tomllib.loads(SETTINGS.read_text())
    left_out = [path for entry in table["left_out"] for path in entry["modules"]]
    suites = [
        Suite(
            name,
            tuple(
                room_modules(name, [*left_out, *(other for other in table["suites"] if other.startswith(f"{name}/"))])
            ),
            tuple(suite.get("tests", [f"tests/{name}"])),
            tuple(suite.get("deselect", ())),
            tuple(suite.get("signatures", ())),
        )
        for name, suite in table["suites"].items()
    ]
    equivalent = table.get("equivalent", ())
    ignored = {(entry["module"], entry["function"], change) for entry in equivalent for change in entry["changes"]}
    return suites, ignored, left_out


def room_modules(folder: str, left_out: Iterable[str]) -> list[str]:
    """Return the modules below a folder that hold code, without those that are left out."""
    modules = [str(file.relative_to(ROOT)) for file in sorted((ROOT / folder).rglob("*.py")) if file.stat().st_size]
    return [module for module in modules if not _within(module, left_out)]


def _outdated(ignored: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    for module, function, change in sorted(ignored):
        file = ROOT / module
        mutants = mutants_of(file.read_text()) if file.exists() else []
        if not any(mutant.function == function and mutant.change == change for mutant in mutants):
            yield f"{module} {function}: {change}"


def _within(module: str, paths: Iterable[str]) -> bool:
    return any(module == path.removeprefix("./") or module.startswith(path.rstrip("/") + "/") for path in paths)


def _profile() -> None:
    """Equal examples in every child, and no time spent on making a failing one smaller."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip


def _run_suite(
    suite: Suite, chosen: Mapping[str, Sequence[Mutant]], jobs: int
) -> Iterator[tuple[str, str, int, list[Mutant]]]:
    """Yield suite, module, number of mutants, and those that no test noticed."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        survived, called = _session(suite, chosen, jobs, Path(folder))
        for module, mutants in chosen.items():
            outcomes = survived[module]
            remaining = [mutant for mutant in mutants if mutant.number not in outcomes]
            outcomes |= {
                mutant.number: status == 0 for mutant, status in _run_imported(module, remaining, called, jobs, folder)
            }
            survivors = [mutant for mutant in mutants if outcomes[mutant.number]]
            print(f"{module}: {len(mutants) - len(survivors)} of {len(mutants)} killed", file=sys.stderr, flush=True)
            for mutant in survivors:
                print(_describe(module, mutant), file=sys.stderr, flush=True)
            yield suite.name, module, len(mutants), survivors


def _draw(
    name: str, modules: Sequence[str], ignored: set[tuple[str, str, str]], sample: int, room: int, seed: int
) -> dict[str, list[Mutant]]:
    """Return each module's mutants: at most ``sample`` of a module, at most ``room`` of them all."""
    chosen = {module: _select(module, ignored, sample, seed) for module in modules}
    sampled = [(module, mutant) for module, mutants in chosen.items() for mutant in mutants]
    if 0 < room < len(sampled):
        indices = set(Random(f"{seed}/{name}").sample(range(len(sampled)), room))
        sampled = [pair for index, pair in enumerate(sampled) if index in indices]
    return {
        module: mutants for module in modules if (mutants := [mutant for name, mutant in sampled if name == module])
    }


def _select(module: str, ignored: set[tuple[str, str, str]], sample: int, seed: int) -> list[Mutant]:
    mutants = mutants_of((ROOT / module).read_text())
    mutants = [mutant for mutant in mutants if (module, mutant.function, mutant.change) not in ignored]
    if not 0 < sample < len(mutants):
        return mutants
    return sorted(Random(f"{seed}/{module}").sample(mutants, sample), key=lambda mutant: mutant.number)


def _session(suite: Suite, mutants: Mapping[str, Sequence[Mutant]], jobs: int, folder: Path) -> tuple[Survived, Called]:
    """Run the mutants that change a function alone. Ends the program where unchanged code fails all its tests."""
    plugin = MutantSession(folder / "survived.json", ROOT, mutants, jobs)
    arguments = [*suite.tests, *(f"--deselect={test}" for test in suite.deselect)]
    os.waitpid(fork(lambda: _pytest(arguments, folder, plugin)), 0)
    for test in plugin.failed.read_text().split("\n") if plugin.failed.exists() else ():
        if test:
            print(f"{test} fails without any change; it is left out", file=sys.stderr)
    if not plugin.path.exists():
        sys.exit(f"the tests of {suite.name} fail without any change: pytest {' '.join(suite.tests)}")
    stored = json.loads(plugin.path.read_text())
    survived = {
        module: {int(number): passed for number, passed in numbers.items()} for module, numbers in stored.items()
    }
    return survived, Called.read(plugin.recorder.path, suite.signatures)


def _run_imported(
    module: str, mutants: Sequence[Mutant], called: Called, jobs: int, folder: str
) -> Iterator[tuple[Mutant, int]]:
    """Run mutants that change a module as it is imported; each with its child's wait status."""
    source = (ROOT / module).read_text()

    def starts() -> Iterator[tuple[Mutant, int, Callable[[], int]]]:
        for mutant in mutants:
            code = compile_mutant(source, mutant.number, ROOT / module)
            tests = called.covering(module, mutant.function)
            target = Path(folder, f"{module.replace('/', '-')}-{mutant.number}")
            yield mutant, cpu_limit(called, tests), partial(_run_with, module, code, tests, target)

    yield from run_in_pool(starts(), jobs)


def _run_with(module: str, code: CodeType, tests: Sequence[str], folder: Path) -> int:
    name = import_name(module)
    sys.meta_path.insert(0, Finder(name, Loader(name, str(ROOT / module), code)))
    status = _pytest(tests, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return status


def _pytest(arguments: Sequence[str], folder: Path, *plugins: object) -> int:
    import pytest

    folder.mkdir(exist_ok=True)
    options = [
        "-x",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not long",
        "--hypothesis-profile=mutants",
        f"--timeout={TIMEOUT_S * slowdown():.0f}",
    ]
    options += [word for plugin in PLUGINS for word in ("-p", plugin)]
    return int(pytest.main([*options, f"--basetemp={folder}/tests", *arguments], plugins))


def _report(rows: Sequence[tuple[str, str, int, list[Mutant]]]) -> None:
    print("| module | mutants | killed | survived | percent |\n| --- | ---: | ---: | ---: | ---: |")
    mutants, survived = Counter[str](), Counter[str]()
    for suite, module, number, survivors in rows:
        print(_row(module, number, len(survivors)))
        mutants.update({suite: number, "all": number})
        survived.update({suite: len(survivors), "all": len(survivors)})
    for name, number in mutants.items():
        print(_row(f"**{name}**", number, survived[name]))
    for _, module, _, survivors in rows:
        for mutant in survivors:
            print(_describe(module, mutant))


def _describe(module: str, mutant: Mutant) -> str:
    return f"{module}:{mutant.line} {mutant.function}: {mutant.change}"


def _row(name: str, number: int, survived: int) -> str:
    return (
        f"| {name} | {number} | {number - survived} | {survived} | {100 * (number - survived) / max(1, number):.0f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
