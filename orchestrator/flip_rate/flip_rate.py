"""Replays of a share of a run, each setting in a run folder of its own, and the tables of what changes.

The original run is only read. A repeat resumes like any run: rerun the command to continue.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.datasets.staging import data_folder, pin_data
from orchestrator.execution.results import AttemptOutcome
from orchestrator.execution.run import run
from orchestrator.flip_rate import comparison
from orchestrator.flip_rate.repeats import (
    FOLDER,
    DrawnIds,
    Setting,
    choose_settings,
    describe_left_out,
    draw_samples,
    repeat_sweep,
    repeated_players,
)  # fmt: skip
from orchestrator.inspection import service_cost
from orchestrator.merging.reuse import REJECTION_REASONS, reusable_from
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.report.tables.csv import csv_text
from orchestrator.report.tables.flip_rates import CELLS_FILE, CHANGED_FILE, RATES_FILE
from orchestrator.storage import safe_write
from orchestrator.storage.run_folder import stored_sweep
from sweeps.spec import Sweep


@dataclass(frozen=True)
class Repeats:
    """A share of a run and the settings of its replays."""

    folder: Path
    """The run folder."""
    share: float
    """Percent of the samples of each scenario."""
    seed: int
    settings: Sequence[Setting]
    sweep: Sweep
    """The sweep of the run."""
    ids: DrawnIds

    @property
    def output(self) -> Path:
        """The folder of the repeats and their tables."""
        return self.folder / FOLDER / f"share-{self.share:g}-seed-{self.seed}"

    def sweeps(self) -> Iterator[tuple[Setting, Sweep]]:
        """Yield each setting and its sweep."""
        for setting in self.settings:
            yield setting, repeat_sweep(self.sweep, self.ids, setting, self.output / setting.name)

    def lines(self) -> Iterator[str]:
        """Describe the work and the cost of services, before the replay."""
        yield from describe_left_out(self.sweep, self.ids, self.settings)
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
        """Return True if a service answers or judges."""
        return any(model.backend == "openai" for model in repeated_players(self.sweep))


@dataclass(frozen=True)
class Flips:
    """The tables of what changed, with notes."""

    rates: pl.DataFrame
    """Rows of ``flip_rates.RATES``."""
    cells: pl.DataFrame
    """Rows of ``flip_rates.CELLS``."""
    changed: pl.DataFrame
    notes: tuple[str, ...]


def prepare_repeats(
    folder: Path,
    share: float,
    seed: int = 0,
    batches: Sequence[int] = (),
    workers: Sequence[int] = (),
    data: Path | None = None,
    others: Sequence[Setting] = (),
) -> Repeats:
    """Plan the repeats of a run folder; nothing is written or played.

    ``batches``, ``workers`` and ``others`` are as in ``choose_settings``; ``data`` is the benchmark's folder if it moved. Raises
    RunFolderError if the folder has no run or no sample to replay.
    """
    sweep = stored_sweep(folder)
    moved = sweep if data is None else sweep.model_copy(update={"data": str(data)})
    chosen = choose_settings(sweep, batches, workers, others)
    return Repeats(folder, share, seed, chosen, moved, draw_samples(sweep, folder, share, seed))


def play(repeats: Repeats, say: Callable[[str], None] = print) -> AttemptOutcome:
    """Play the pending episodes of every setting, up to an interrupted one; return the outcome with the highest exit code."""
    outcomes = []
    for setting, sweep in repeats.sweeps():
        say(f"{setting.name}: playing into {sweep.output}")
        outcomes.append(run(sweep, Path(sweep.output), say=say))
        if outcomes[-1].interrupted:
            break
    return max(outcomes, key=lambda outcome: outcome.exit_code)


def compare_repeats(repeats: Repeats) -> Flips:
    """Compare the run with its repeats."""
    rates, cells, changed, notes = [], [], [], list[str]()
    for setting, sweep in repeats.sweeps():
        pinned = pin_data(sweep)
        reusable = reusable_from(pinned, build_plan(pinned), str(repeats.folder), repeats.folder)
        if not reusable.source.own.height and not reusable.left:
            raise RunFolderError(
                f"{repeats.folder} has no key of this version and data: another version or other data played it, so differences "
                "would not be due to the batch size"
            )
        notes += [
            f"{count:,} of {repeats.folder} {REJECTION_REASONS[reason]}: not compared"
            for reason, count in reusable.left.items()
        ]
        paired = comparison.pair_episodes(sweep, repeats.folder, Path(sweep.output), reusable.source.episodes)
        if paired.missing:
            notes.append(f"{setting.name} lacks {pluralize(paired.missing, 'episode')} of the run: not compared")
        rates.append(comparison.rates(paired, setting.name))
        cells.append(comparison.cells(paired, setting.name))
        changed.append(comparison.changed_turns(paired, setting.name))
    return Flips(pl.concat(rates), pl.concat(cells), pl.concat(changed), tuple(dict.fromkeys(notes)))


def write_tables(repeats: Repeats, flips: Flips) -> Path:
    """Write the tables into the folder of the repeats and return it."""
    frames = {RATES_FILE: flips.rates, CELLS_FILE: flips.cells, CHANGED_FILE: flips.changed}
    for name, frame in frames.items():
        safe_write.write(repeats.output / name, csv_text(frame).encode())
    return repeats.output
