"""A pytest plugin that notes which test calls which function of some modules, and how long the test takes.

A fixture's calls count for every test that uses it; calls made while tests are collected count for all tests. What shared
fixtures have computed on demand is computed again in each test, so that its calls count for all tests that read it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType

import pytest

FAST_S = 10
"""CPU seconds of a test, under the recorder; a slower test is not run again for each mutant."""

Function = tuple[str, str]
"""A module's file and the qualified name of one of its functions."""


@dataclass(frozen=True)
class Called:
    """What the tests of a suite call."""

    seconds: dict[str, float]
    """Test -> how long it takes, quickest first."""
    tests: dict[Function, set[str]]
    always: set[Function]
    """Functions that are called while tests are collected."""
    signatures: tuple[str, ...] = ()
    """Files of tests that read the defaults of functions without calling them."""

    def covering(self, module: str, function: str) -> list[str]:
        """Return the tests that a change of this function may fail, fastest first; all tests if none is known to call it."""
        callers = self.tests.get((module, function))
        if callers is None or (module, function) in self.always:
            return list(self.seconds)
        return [test for test in self.seconds if test in callers or test.startswith(self.signatures)]

    @classmethod
    def read(cls, path: Path, signatures: tuple[str, ...] = ()) -> Called:
        """Read what ``Recorder`` wrote, without the tests slower than ``FAST_S``."""
        record = json.loads(path.read_text())
        tests: dict[Function, set[str]] = defaultdict(set)
        for test, functions in record["tests"].items():
            for module, name in functions:
                tests[module, name].add(test)
        fast = {test: seconds for test, seconds in record["seconds"].items() if seconds <= FAST_S}
        seconds = dict(sorted(fast.items(), key=lambda pair: (round(pair[1], 2), pair[0])))
        return cls(seconds, dict(tests), {(module, name) for module, name in record["always"]}, signatures)


class Recorder:
    """The plugin; ``path`` gets its findings."""

    def __init__(self, path: Path, root: Path, modules: Collection[str]) -> None:
        self.path = path
        self.files = {str(root / module): module for module in modules}
        self.now: set[Function] = set()
        self.always: set[Function] = self.now
        self.fixtures: dict[str, set[Function]] = defaultdict(set)
        self.shared = list[object]()
        self.tests: dict[str, set[Function]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        threading.settrace(self._event)  # a thread's calls count for the test that is run at the time
        sys.settrace(self._event)

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename in self.files:
            self.now.add((self.files[code.co_filename], _name(code)))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        before, self.now = self.now, self.fixtures[fixturedef.argname]
        try:
            value = yield
        finally:
            self.now = before
        if fixturedef.scope != "function":
            self.shared.append(value)
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        forget(self.files.values())
        for value in self.shared:
            forget_computed(value)
        before, self.now, began = self.now, self.tests[item.nodeid], time.process_time()
        try:
            return (yield)
        finally:
            self.now, self.seconds[item.nodeid] = before, time.process_time() - began
            for name in getattr(item, "fixturenames", ()):
                self.tests[item.nodeid] |= self.fixtures[name]

    def drop(self, test: str) -> None:
        """Forget a test that fails unchanged code: it can notice nothing."""
        self.tests.pop(test, None)
        self.seconds.pop(test, None)

    def write(self) -> None:
        """Write the findings and stop recording."""
        threading.settrace(None)
        sys.settrace(None)
        tests = {test: sorted(functions) for test, functions in self.tests.items()}
        record = {"tests": tests, "seconds": self.seconds, "always": sorted(self.always)}
        self.path.write_text(json.dumps(record))


def _name(code: CodeType) -> str:
    """The function that the code belongs to, lambdas and comprehensions with the function they stand in."""
    parts = [part for part in code.co_qualname.split(".") if part != "<locals>"]
    while parts and parts[-1].startswith("<"):
        parts.pop()
    return ".".join(parts)


def import_name(module: str) -> str:
    """Return the name by which a file of ours is imported; a package's for its ``__init__.py``."""
    return module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def forget(modules: Iterable[str]) -> None:
    """Empty the caches of functions, so that a test's calls do not depend on the tests before it."""
    for module in modules:
        loaded = sys.modules.get(import_name(module))
        for value in list(vars(loaded).values()) if loaded else ():
            if callable(clear := getattr(value, "cache_clear", None)):
                clear()


def forget_computed(value: object) -> None:
    """Empty the dictionary ``cache`` and the cached properties of an object, as ``RunData`` has them."""
    cache = getattr(value, "cache", None)
    if isinstance(cache, dict):
        cache.clear()
    for name, attribute in vars(type(value)).items():
        if isinstance(attribute, cached_property):
            vars(value).pop(name, None)
