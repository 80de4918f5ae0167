"""Plays a share of a run again, one run folder a setting, and writes what has changed.

The run's own files are only read. Each repeat is played as any run is: what was killed goes on by the same command, and
nothing that is stored is played twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from orchestrator.datasets.staging import data_folder, pin_data
from orchestrator.execution.results import AttemptOutcome
from orchestrator.execution.run import run
from orchestrator.flip_rate import comparison
from orchestrator.flip_rate.repeats import Drawn, Setting, drawn, left_out, place, repeat, settings
from orchestrator.inspection import service_cost
from orchestrator.merging.reuse import REJECTION_REASONS, reusable_from
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.report.tables.flip_rates import CELLS, CELLS_FILE, CHANGED_FILE, RATES, RATES_FILE
from orchestrator.report.wording import pluralize
from orchestrator.storage import atomic_write
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import stored_sweep
from sweeps.spec import Sweep


@dataclass(frozen=True)
class Repeats:
    """A share of a run and the settings under which it is played again."""

    folder: Path
    """The run's."""
    share: float
    """Percent of the samples of each scenario."""
    seed: int
    settings: Sequence[Setting]
    sweep: Sweep
    """The run's own."""
    ids: Drawn

    @property
    def place(self) -> Path:
        """Where the repeats and their tables lie."""
        return place(self.folder, self.share, self.seed)

    def sweeps(self) -> Iterator[tuple[Setting, Sweep]]:
        """Each setting and the sweep that plays the share under it."""
        for setting in self.settings:
            yield setting, repeat(self.sweep, self.ids, setting, self.place / setting.name)

    def lines(self) -> Iterator[str]:
        """What will be played and what services will ask for it, before anything is played."""
        yield from left_out(self.sweep, self.ids, self.settings)
        for setting, sweep in self.sweeps():
            plan = build_plan(sweep)
            rows = cells_with_progress(plan, Path(sweep.output))
            pending = {row["cell"]: row["planned"] - row["done"] for row in rows}
            samples = pluralize(sum(map(len, plan.samples_by_id.values())), "sample")
            yield f"{setting.name}: {pluralize(plan.total_with_stops, 'episode')} of {samples}, {sum(pending.values()):,} pending"
            estimates = service_cost.estimates(plan, pending, data_folder(sweep), self.folder)
            yield from (f"{setting.name}: {line}" for line in service_cost.lines(estimates, sweep.cluster.max_cost))

    @property
    def asks_services(self) -> bool:
        """Return True if a service answers or judges, which may cost money."""
        judges = [self.sweep.judge.model] if self.sweep.is_judged and self.sweep.judge else []
        return any(model.backend == "openai" for model in (*self.sweep.models, *judges))


@dataclass(frozen=True)
class Flips:
    """What has changed: the tables that are written, and what a reader must know beside them."""

    rates: pl.DataFrame
    """Rows of ``flip_rates.RATES``."""
    cells: pl.DataFrame
    """Rows of ``flip_rates.CELLS``."""
    changed: pl.DataFrame
    notes: tuple[str, ...]


def prepared(
    folder: Path,
    share: float,
    seed: int = 0,
    batches: Sequence[int] = (),
    workers: Sequence[int] = (),
    data: Path | None = None,
) -> Repeats:
    """The repeats of a run folder; nothing is written or played. ``data``: where the benchmark lies now.

    ``batches`` and ``workers`` are what is tried (``repeats.settings``).
    Raises RunFolderError where the folder is no run, or has nothing that can be played again.
    """
    sweep = stored_sweep(folder)
    moved = sweep if data is None else sweep.model_copy(update={"data": str(data)})
    tried = settings(sweep, batches, workers)
    return Repeats(folder, share, seed, tried, moved, drawn(sweep, folder, share, seed))


def play(repeats: Repeats, say: Callable[[str], None] = print) -> AttemptOutcome:
    """Play every setting, what is pending of it; stops with the first one that somebody stops. Its or the last outcome."""
    outcomes = []
    for setting, sweep in repeats.sweeps():
        say(f"{setting.name}: played into {sweep.output}")
        outcomes.append(run(sweep, Path(sweep.output), say=say))
        if outcomes[-1].interrupted:
            break
    return max(outcomes, key=lambda outcome: outcome.exit_code)


def compared(repeats: Repeats) -> Flips:
    """The run beside what its repeats hold now."""
    rates, cells, changed, notes = [], [], [], list[str]()
    for setting, sweep in repeats.sweeps():
        pinned = pin_data(sweep)
        reusable = reusable_from(pinned, build_plan(pinned), str(repeats.folder), repeats.folder)
        _same_keys(repeats.folder, reusable.source.own.height, reusable.left)
        notes += [
            f"{count:,} of {repeats.folder} {REJECTION_REASONS[why]}: not compared"
            for why, count in reusable.left.items()
        ]
        paired = comparison.pairs(sweep, repeats.folder, Path(sweep.output), reusable.source.episodes)
        if paired.missing:
            notes.append(f"{setting.name} lacks {pluralize(paired.missing, 'episode')} of the run: not compared")
        rates.append(comparison.rates(paired, setting.name))
        cells.append(comparison.cells(paired, setting.name))
        changed.append(comparison.changed(paired, setting.name))
    tables = (comparison.together(rates, RATES), comparison.together(cells, CELLS), pl.concat(changed))
    return Flips(*tables, tuple(dict.fromkeys(notes)))


def write(repeats: Repeats, flips: Flips) -> Path:
    """Write the tables beside the repeats; the folder that they are in."""
    named = {RATES_FILE: flips.rates, CELLS_FILE: flips.cells, CHANGED_FILE: flips.changed}
    for name, frame in named.items():
        atomic_write.write(repeats.place / name, frame.write_csv(float_precision=6).encode())
    return repeats.place


def _same_keys(folder: Path, shared: int, left: Counter[str]) -> None:
    if not shared and not left:
        raise RunFolderError(
            f"no key of {folder} is one that this version plays over these data: it was played by another version or over "
            "other data, so what differs would not be the batch size"
        )
