"""Every stored reply is played again, by our game and by the package ``proactivebench``: what either says otherwise is told.

Compared turn by turn: picture and crop, question and options, both verdicts, move; then ending, number of turns and the
counts of actions. Random-proactive: our game draws its moves from the seed anew, the package is given the recorded ones
(it leaves open how they are drawn). Not compared: sizes of pictures, solved examples, replies that never came.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
from pydantic import ValidationError

from actors.prompts import posed, resized, staged
from envs import SCENARIOS
from envs.lenient import forgiven
from envs.types import Action, Ending, Sample
from orchestrator.data.stage import local
from orchestrator.plan import Plan
from orchestrator.planning import belonging, build_plan
from orchestrator.storage.folder import RESOLVED, RunFolderError
from orchestrator.storage.store import turns
from sweeps.spec import Cell, Protocol, Sweep

PACKAGE, VERSION = "proactivebench", "0.1.1"
NEEDS = (3, 12)
"""Its environment module nests quotes in f-strings, which Python reads from 3.12 on."""
BATCH = 1_000
"""Episodes sent to the package at once."""
SHOWN = 20
"""Differences that are printed; the count tells all."""
UNFINISHED = {Ending.UNPROCESSABLE, Ending.REFUSED, Ending.FAILED}
"""Endings that the game does not give: both games must be waiting for a reply."""
STORED = ("image", "reply", "option", "category", "action", "move", "frame")
COUNTED = {
    "suggestions": Action.SUGGESTION, "abstentions": Action.ABSTENTION, "categories": Action.CATEGORY,
    "unparsable": Action.UNPARSABLE,
}  # fmt: skip


class AuditError(RunFolderError):
    """What the user should read."""


@dataclass(frozen=True)
class Difference:
    """One thing that is told differently."""

    key: str
    what: str
    stored: Any
    ours: Any
    package: Any

    def __str__(self) -> str:
        return f"{self.key}: {self.what}: stored {self.stored!r}, ours {self.ours!r}, package {self.package!r}"


@dataclass(frozen=True)
class Audit:
    """What an audit found."""

    episodes: int
    turns: int
    differences: tuple[Difference, ...]
    raised: tuple[str, ...]
    """Episodes that the package cannot play (docs/decisions/0001), one sentence each; compared up to there."""
    other: int
    """Episodes of other protocols, which the package has no game for."""

    def lines(self) -> Iterator[str]:
        """What to print: the differences, what the package could not play, and the count."""
        yield from map(str, islice(self.differences, SHOWN))
        yield from islice(self.raised, SHOWN)
        if self.other:
            yield f"{self.other:,} open-ended episodes are left out: the package has no game for them"
        if self.raised:
            yield f"the package raises in {len(self.raised):,} episodes (docs/decisions/0001), compared up to there"
        yield f"{self.episodes:,} episodes, {self.turns:,} turns: {len(self.differences):,} differences"


@dataclass(frozen=True)
class Recording:
    """A stored episode with the sample as its condition showed it."""

    row: Mapping[str, Any]
    cell: Cell
    sample: Sample

    def task(self) -> dict[str, Any]:
        """What the package is given."""
        condition, replies = self.cell.condition, self.row["reply"]
        if condition.lenient:
            replies = [read for read, _ in _played(self)]
        return {
            "stem": SCENARIOS[self.cell.scenario].stem, "id": self.sample.id, "mode": condition.mode.value,
            "hint": condition.hint, "options": self.sample.options, "categories": self.sample.categories,
            "replies": replies, "moves": self.row["move"],
        }  # fmt: skip


def audit(folder: Path, package: Path | None = None, python: str | None = None, data: Path | None = None) -> Audit:
    """Replay a run folder; ``data`` is where the benchmark lies now, if not where the sweep says.

    Raises AuditError when the folder is no run or the package cannot be run, BadData when the samples cannot be read.
    """
    sweep = _sweep(folder, data)
    plan = build_plan(sweep)
    count, rows, found, raised, other = 0, 0, list[Difference](), list[str](), 0
    with referee(local(sweep), package, python) as ask:
        for episode, told in _asked(_recordings(plan, folder), ask):
            if told is None:
                other += 1
                continue
            count, rows = count + 1, rows + len(episode.row["reply"])
            found += compared(episode, told)
            if told["raised"]:
                raised.append(f"{episode.row['key']}: the package raises {told['raised']}")
    return Audit(count, rows, tuple(found), tuple(raised), other)


def compared(episode: Recording, told: Mapping[str, Any]) -> Iterator[Difference]:
    """What the store, our game and the package (``told``, see ``orchestrator/referee.py``) do not agree on."""
    row, played = episode.row, list(_played(episode))
    mine = [facts for _, facts in played]
    for number, ours in enumerate(mine):
        kept = {name: row[name][number] for name in STORED if name != "reply"}
        theirs = told["turns"][number] if number < len(told["turns"]) else None
        if theirs is None and told["raised"]:
            theirs = ours["package"]  # where the package gave up, only ours can be compared
        for name in kept:
            if kept[name] != ours[name]:
                yield Difference(row["key"], f"turn {number}, {name}", kept[name], ours[name], "not asked")
        if theirs != ours["package"]:
            yield Difference(row["key"], f"turn {number}", kept, ours["package"], theirs)
    if len(mine) != len(row["reply"]):
        yield Difference(row["key"], "turns", len(row["reply"]), len(mine), len(told["turns"]))
    yield from _totals(episode, mine, told)


def _totals(episode: Recording, mine: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> Iterator[Difference]:
    row = episode.row
    ours = mine[-1]["ending"] if mine else None
    stored = None if row["ending"] in UNFINISHED else row["ending"]
    theirs = ours if told["raised"] else told["ending"]
    if not stored == ours == theirs:
        yield Difference(row["key"], "ending", row["ending"], ours, told["ending"])
    did = Counter(facts["action"] for facts in mine)
    counts = {"turns": len(mine), "correct": ours == Ending.CORRECT, **{n: did[a] for n, a in COUNTED.items()}}
    for name, value in counts.items():
        if row[f"n_{name}"] != value:
            yield Difference(row["key"], name, row[f"n_{name}"], value, "not asked")


def _played(episode: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """Our game on the stored replies: each reply as it was read, and what came of it."""
    sample, condition = episode.sample, episode.cell.condition
    game = SCENARIOS[sample.scenario]
    state = game.initial(sample, condition.mode, episode.row["seed"])
    edge = game.history_edge if condition.history and condition.resized else None
    for reply in episode.row["reply"]:
        if state.ending is not None:
            return
        view, plain = posed(sample, state, condition), game.view(sample, state, condition.hint)
        read = forgiven(sample, state, reply) if condition.lenient else reply
        state, turn = game.step(sample, state, read)
        move = turn.move and turn.move.value
        crop = view.image.crop and [float(edge) for edge in view.image.crop]
        options = [*view.options, *view.categories]
        yield read, {
            "image": resized(view.image, edge).key, "option": turn.option.value, "category": turn.category.value,
            "action": turn.action.value, "move": move, "frame": turn.frame, "ending": state.ending and state.ending.value,
            "package": [view.image.path, crop, plain.prompt, options, turn.option.value, turn.category.value, move],
        }  # fmt: skip


# -- the store ---------------------------------------------------------------------------------------------------------
def _sweep(folder: Path, data: Path | None) -> Sweep:
    try:
        sweep = Sweep(**tomllib.loads((folder / RESOLVED).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError, TypeError):
        raise AuditError(f"{folder} is no run folder: {RESOLVED} is not there or cannot be read") from None
    return sweep if data is None else sweep.model_copy(update={"data": str(data)})


def _recordings(plan: Plan, folder: Path) -> Iterator[Recording | None]:
    """The stored episodes that belong to the plan, model by model; None for one of another protocol."""
    cells = {cell.key: cell for cell in plan.cells}
    kept = belonging(plan, folder)
    clash = [name for name in ("turns", "correct", *COUNTED)]
    kept = kept.rename({name: f"n_{name}" for name in clash})
    for model in dict.fromkeys(cell.model.name for cell in plan.cells):
        mine = kept.filter(pl.col("model") == model)
        said = turns(folder).join(mine.select("key"), on="key", how="semi").sort("key", "turn")
        lists = said.group_by("key").agg(*STORED)
        for row in mine.join(lists, on="key", how="left").sort("key").collect().iter_rows(named=True):
            cell = cells[row["cell"]]
            whole = row | {name: row[name] or [] for name in STORED}
            shown = staged(plan.played[cell.scenario][row["sample_id"]], cell.condition, plan.seed)
            yield Recording(whole, cell, shown) if cell.protocol is Protocol.MCQA else None


# -- the package -------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def referee(data: Path, package: Path | None, python: str | None) -> Iterator[Any]:
    """A process of the package; the value asks it a list of tasks and gives the list of its answers."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    interpreter = _python(python)
    if found := _package(package):
        environment["PYTHONPATH"] = str(found)
    _importable(interpreter, environment)
    script = Path(__file__).with_name("referee.py")
    process = subprocess.Popen(
        [interpreter, str(script), str(data)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        encoding="utf-8",
    )  # fmt: skip

    def ask(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        assert process.stdin is not None and process.stdout is not None
        lines = "".join(json.dumps(task) + "\n" for task in tasks)
        writer = Thread(target=_written, args=(process.stdin, lines))
        writer.start()  # both pipes hold only some kilobytes: read while writing
        answers = [process.stdout.readline() for _ in tasks]
        writer.join()
        if not all(answers):
            raise AuditError("the package stopped in the middle; its own message stands above")
        return [json.loads(answer) for answer in answers]

    try:
        yield ask
    finally:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _written(pipe: Any, text: str) -> None:
    with contextlib.suppress(OSError):  # the reader sees that the process is gone
        pipe.write(text)
        pipe.flush()


def _asked(episodes: Iterator[Recording | None], ask: Any) -> Iterator[tuple[Any, Any]]:
    while batch := list(islice(episodes, BATCH)):
        known = [episode for episode in batch if episode is not None]
        yield from zip(known, ask([episode.task() for episode in known]), strict=True)
        yield from ((None, None) for _ in range(len(batch) - len(known)))


def _package(named: Path | None) -> Path | None:
    """The folder that holds ``proactivebench``; None leaves it to the interpreter's own packages."""
    if named is None and (path := os.environ.get("PROACTIVEBENCH_PATH")):
        named = Path(path)
    if named is not None:
        if not (named / PACKAGE / "environment.py").is_file():
            raise AuditError(f"{named} holds no folder {PACKAGE} with environment.py; --package names what it lies in")
        return named
    found = importlib.util.find_spec(PACKAGE)
    return Path(found.origin).parents[1] if found is not None and found.origin else None


def _python(named: str | None) -> str:
    if named is not None:
        if not _new_enough(named):
            raise AuditError(f"--python {named} does not start, or is older than Python 3.12, which the package needs")
        return named
    if sys.version_info >= NEEDS:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python3.{minor}") for minor in range(12, 16)]
    candidates += [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]
    for path in candidates:
        if path and _new_enough(path):
            return path
    raise AuditError(
        f"the package {PACKAGE} needs Python 3.12 or newer, this is {sys.version_info.major}.{sys.version_info.minor} "
        "and no newer one was found; name one with --python /path/to/python3.12"
    )


def _new_enough(python: str) -> bool:
    """Whether it starts and is new enough; pyenv's shims exist for versions that are not active."""
    test = f"import sys; sys.exit(sys.version_info < {NEEDS})"
    try:
        return subprocess.run([python, "-c", test], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _importable(python: str, environment: Mapping[str, str]) -> None:
    tried = subprocess.run(
        [python, "-c", f"import {PACKAGE}.environment"], env=dict(environment), capture_output=True, timeout=60
    )
    if tried.returncode:
        raise AuditError(
            f"{python} cannot import {PACKAGE}: `pip install --no-deps --target DIR --python-version 3.12 "
            f"--only-binary=:all: {PACKAGE}=={VERSION}` fetches it, `--package DIR` names it"
        )
