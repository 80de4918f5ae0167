"""A pytest plugin that runs tests on mutants: collect once, then fork a child for each mutant and change one function there.

A function is changed by giving it other code, so every module that imported it runs the mutant, and no child imports or
collects anything. What no function holds (a constant of a module, a default, a class) is left to a child that imports anew.
"""

from __future__ import annotations

import functools
import gc
import inspect
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.bench.called import Called, Recorder, forget, import_name
from tests.bench.mutations import Mutant, compile_mutant

MIN_CPU_S, CPU_FACTOR, WALL_FACTOR, MEMORY_BYTES = 5, 4, 20, 4 << 30
"""A child may use so many times the CPU time of the unchanged tests, and wait so many times longer than that (``slowdown``)."""

Survived = dict[str, dict[int, bool]]
"""Module -> number of a mutant -> whether all its tests passed."""


class MutantSession:
    """The plugin; ``path`` gets what the tests call, and which mutants survived."""

    def __init__(self, path: Path, root: Path, mutants: Mapping[str, Sequence[Mutant]], jobs: int) -> None:
        self.path, self.root, self.mutants, self.jobs = path, root, mutants, jobs
        self.failed = path.with_name("failed.txt")
        self.recorder = Recorder(path.with_suffix(".called"), root, list(mutants))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running the tests once: once unchanged, then once for each mutant."""
        session.config.pluginmanager.register(self.recorder)
        baseline = fork(lambda: self._unchanged(session))
        threading.settrace(None)
        sys.settrace(None)
        session.config.pluginmanager.unregister(self.recorder)
        if os.waitpid(baseline, 0)[1]:
            session.testsfailed = 1
            return True
        called = Called.read(self.recorder.path)
        gc.collect()
        gc.freeze()
        survived: Survived = {}
        for module in self.mutants:
            survived[module] = {mutant.number: status == 0 for mutant, status in self._module(session, module, called)}
        self.path.write_text(json.dumps(survived))
        return True

    def _unchanged(self, session: pytest.Session) -> int:
        """Run all tests once; one that fails is left out of the runs that follow, with a line in ``failed.txt``."""
        failed = []
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            before = session.testsfailed
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed > before:
                failed.append(item.nodeid)
                self.recorder.drop(item.nodeid)
        session.testsfailed = 0
        self.recorder.write()
        self.failed.write_text("\n".join(failed))
        return int(len(failed) == len(session.items))

    def _module(self, session: pytest.Session, module: str, called: Called) -> Iterator[tuple[Mutant, int]]:
        """The mutants of one module that need no new import, with the status of their children."""
        source, items = (self.root / module).read_text(), {item.nodeid: item for item in session.items}

        def starts() -> Iterator[tuple[Mutant, int, Callable[[], int]]]:
            for mutant in self.mutants[module]:
                code = compile_mutant(source, mutant.number, self.root / module)
                change = (
                    None if (module, mutant.function) in called.always else find_change(module, mutant.function, code)
                )
                if change is not None:
                    tests = called.covering(module, mutant.function)
                    run = functools.partial(_run_changed, change, module, [items[test] for test in tests], session)
                    yield mutant, cpu_limit(called, tests), run

        yield from run_in_pool(starts(), self.jobs)


def _run_changed(change: Callable[[], None], module: str, items: Sequence[pytest.Item], session: pytest.Session) -> int:
    change()
    forget([module])
    return run_tests(items, session)


def run_tests(items: Sequence[pytest.Item], session: pytest.Session) -> int:
    """Run tests up to the first that fails; 1 if one does."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def cpu_limit(called: Called, tests: Sequence[str]) -> int:
    """CPU seconds that a child may use for these tests."""
    return int(MIN_CPU_S + CPU_FACTOR * sum(called.seconds[test] for test in tests))


def find_change(module: str, function: str, code: CodeType) -> Callable[[], None] | None:
    """Gives a function of a loaded module its code in ``code``, the changed module's; None where no function is changed."""
    loaded = sys.modules.get(import_name(module))
    owner, new = loaded, code
    for name in function.split("."):
        inside = [const for const in new.co_consts if isinstance(const, CodeType) and const.co_name == name]
        if owner is None or len(inside) != 1 or name not in vars(owner):
            return None
        owner, new = _unwrapped(vars(owner)[name]), inside[0]
        if isinstance(owner, FunctionType):
            old = owner.__code__
            same = new == old or new.co_freevars != old.co_freevars
            return None if same else functools.partial(setattr, owner, "__code__", new)
    return None


def _unwrapped(value: object) -> object:
    """The function below a property, a cache or a decorator of a class."""
    for name in ("fget", "func", "__func__"):
        value = getattr(value, name, None) or value
    return inspect.unwrap(value) if callable(value) and not isinstance(value, type) else value


def run_in_pool(starts: Iterator[tuple[Mutant, int, Callable[[], int]]], jobs: int) -> Iterator[tuple[Mutant, int]]:
    """Run (mutant, CPU seconds, test run) in so many children at a time; each mutant with its child's wait status."""
    running: dict[int, tuple[Mutant, float]] = {}
    try:
        for mutant, cpu, run in starts:
            while len(running) >= jobs:
                yield from _reap(running)
            running[fork(run, cpu)] = mutant, time.monotonic() + WALL_FACTOR * cpu * slowdown()
        while running:
            yield from _reap(running)
    finally:
        for process in running:
            os.killpg(process, signal.SIGKILL)


def slowdown() -> float:
    """Return how many times longer a child takes beside the other programs of a busy machine, with a margin of two."""
    return max(1.0, 2 * max(os.getloadavg()) / (os.cpu_count() or 1))


def fork(run: Callable[[], int], cpu: int = 0) -> int:
    """Start a silent child in a process group of its own that ends with what ``run`` returns; the child's id."""
    if process := os.fork():
        with suppress(OSError):  # the child does the same: whoever is first
            os.setpgid(process, process)
        return process
    status = 1
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        if cpu:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        status = run()
    finally:
        os._exit(status)


def _reap(running: dict[int, tuple[Mutant, float]]) -> Iterator[tuple[Mutant, int]]:
    """Yield the children that are done, and kill those that are far too late."""
    time.sleep(0.005)
    for process, (mutant, end) in list(running.items()):
        if time.monotonic() > end:
            os.killpg(process, signal.SIGKILL)
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            del running[process]
            yield mutant, status
