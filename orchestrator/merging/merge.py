"""Merges run folders of one configuration into a new one: of one sweep played on two clusters, in parts or overlapping.

Every episode is there once, with the sums of what is written; answers that differ stop it, unless somebody says whose count.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree

import polars as pl

from orchestrator.merging.answers import Conflict, Source, merged_verdicts, share_out, write_episodes
from orchestrator.report.cell_resources import with_resources
from orchestrator.report.decision_map import Stored, with_decisions
from orchestrator.report.metrics import score, write_results
from orchestrator.report.own_measures import with_own
from orchestrator.report.run_data import read
from orchestrator.report.stopped import with_anytime
from orchestrator.report.wording import counted
from orchestrator.storage import checksums, lock, run_folder
from orchestrator.storage.disk import disk
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.run_folder import RunFolderError
from orchestrator.storage.verdict_store import VerdictStore
from sweeps.spec import Sweep

log = logging.getLogger(__name__)

RECORD = "merged.json"
"""What was merged, how much came from where, and whose answers were taken where they differed."""
SHOWN = 5
"""Keys of a conflict that a refusal names."""


@dataclass(frozen=True)
class Merged:
    """What a merge came to."""

    taken: dict[str, int]
    """Folder -> episodes taken from it."""
    gave_way: int
    """Failed episodes for which another folder had an answer."""
    verdicts: int
    conflicts: tuple[Conflict, ...]
    pending: int
    """Planned episodes that none of the folders has."""


def merge(folders: Sequence[Path], into: Path, prefer: str = "") -> Merged:
    """Write a new run folder with all that these hold; raises RunFolderError, with nothing written.

    ``prefer`` names the folder whose answers count where two of one key differ; left out, such answers are an error.
    """
    names = _names(folders)
    if prefer and prefer not in names:
        raise RunFolderError(f"--prefer {prefer} is none of the merged folders; type one of {', '.join(names)}")
    chosen = names.index(prefer) if prefer else None
    sums = [checksums.read(folder) for folder in folders]  # before the locks are looked at
    _free(folders, into)
    sweep = _one_sweep(folders, names)
    left_out = {run_folder.bad_lines(folder) for folder in folders}
    if len(left_out) > 1:
        raise RunFolderError("the folders left out different bad lines of their data, so they are of different plans")
    planned, keys = _plan(folders)
    sources = [Source.of(folder, name) for folder, name in zip(folders, names, strict=True)]
    conflicts, gave_way = share_out(sources, chosen)
    read_by, differing = merged_verdicts(sources, chosen)
    conflicts += differing
    if any(not conflict.taken for conflict in conflicts):
        raise RunFolderError(_refusal(conflicts))
    fresh = not into.exists()
    with disk(into), run_folder.claim(into, sweep, left_out=next(iter(left_out))):
        run_folder.write_plan(into, planned, keys)
        _write(sources, read_by, into)
        if changed := _changed(folders, sums):
            if fresh:
                rmtree(into)
            raise RunFolderError(f"{changed} is being written; wait for its driver, or stop it")
        _check_complete(into, sources)
        taken = {source.name: source.own.height for source in sources}
        pending = keys.len() - sum(taken.values())
        found = Merged(taken, gave_way, read_by.height, tuple(conflicts), pending)
        checksums.write(into / RECORD, (json.dumps(asdict(found), indent=2, ensure_ascii=False) + "\n").encode())
        write_results(into, _results(into, planned))
    return found


def sentences(found: Merged) -> list[str]:
    """What a merge came to, one line each."""
    lines = [f"{counted(count, 'episode')} from {name}" for name, count in found.taken.items()]
    if found.verdicts:
        lines.append(counted(found.verdicts, "verdict"))
    if found.gave_way:
        lines.append(f"{counted(found.gave_way, 'failed episode')} gave way to another folder's answer")
    for one in found.conflicts:
        lines.append(
            f"{counted(len(one.keys), one.kind)} differed between {one.one} and {one.other}: {one.taken}'s are taken"
        )
    return [*lines, f"{counted(found.pending, 'planned episode')} pending; {RECORD} says all this"]


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders as they were typed; raises where one is named twice."""
    lock.named_once(folders)
    if len(folders) < 2:
        raise RunFolderError("one folder is nothing to merge; type two or more folders before --into")
    return [str(folder) for folder in folders]


def _free(folders: Sequence[Path], into: Path) -> None:
    for folder in folders:
        if lock.holder(folder) is not None:
            raise RunFolderError(f"{folder} is being written; wait for its driver, or stop it")
    if any((into / name).exists() for name in (run_folder.RESOLVED, run_folder.PLAN, "episodes")):
        raise RunFolderError(
            f"{into} holds a run already; name a new folder with --into, and that one among the merged"
        )


def _one_sweep(folders: Sequence[Path], names: Sequence[str]) -> Sweep:
    """The sweep of the merged folder: models, or conditions, of all of them; everything else must be the same."""
    sweeps = [run_folder.stored_sweep(folder) for folder in folders]
    first, merged = sweeps[0], sweeps[0]
    for other, name in zip(sweeps[1:], names[1:], strict=True):
        changed = run_folder.differences(run_folder.settings(first), run_folder.settings(other))
        apart = [key for key in ("models", "conditions") if any(line.startswith(f"{key} was") for line in changed)]
        more = [line for line in changed if not line.startswith(("models was", "conditions was"))]
        if more or len(apart) > 1:
            said = "; ".join((more or changed)[: run_folder.SHOWN]).replace("this sweep says", "there it is")
            raise RunFolderError(f"{names[0]} and {name} are of different configurations: {said}")
        models = {model.name: model for model in (*merged.models, *other.models)}
        conditions = {one.name: one for one in (*merged.conditions, *other.conditions)}
        merged = merged.model_copy(update={"models": tuple(models.values()), "conditions": tuple(conditions.values())})
    return merged


def _plan(folders: Sequence[Path]) -> tuple[pl.DataFrame, pl.Series]:
    """The planned cells of all folders, and the planned keys; raises where two plan one cell with different samples."""
    plans = []
    for folder in folders:
        keys = run_folder.planned_keys(folder)
        if keys is None:
            raise RunFolderError(f"{folder}/{run_folder.KEYS} is not there; the same `run` command writes it")
        plans.append((pl.DataFrame(run_folder.planned_cells(folder)), keys.collect()["key"]))
    every = pl.concat([found for _, found in plans]).unique(maintain_order=True)
    cells = pl.concat([found for found, _ in plans], how="diagonal")
    if "full" in cells.columns:  # some stop by precision
        cells = cells.with_columns(pl.coalesce("full", "planned").alias("full"))
    cells = cells.unique(maintain_order=True)
    counts = every.str.replace(r"/[^/]*$", "").value_counts(name="count")
    named = cells.join(counts.rename({"key": "cell"}), on="cell", how="left")
    wrong = named.filter((pl.col("planned") != pl.col("count").fill_null(0)) | pl.col("cell").is_duplicated())
    if wrong.height:
        raise RunFolderError(
            f"the folders plan other samples of {wrong['cell'][0]}, so they are not of one plan: their data differ"
        )
    return cells, every


def _write(sources: Sequence[Source], read_by: pl.DataFrame, into: Path) -> None:
    store = EpisodeStore(into)
    try:
        write_episodes(store, sources)
        store.compact()
    finally:
        store.close()
    if read_by.height:
        kept = VerdictStore(into)
        kept.append(read_by.to_dict(as_series=False))
        kept.flush()


def _changed(folders: Sequence[Path], sums: Sequence[checksums.Sums]) -> Path | None:
    """A folder in which a driver has stored or taken back episodes since; a part has its sum before it has its name."""
    later = (folder for folder, before in zip(folders, sums, strict=True) if checksums.read(folder) != before)
    return next(later, None)


def _check_complete(into: Path, sources: Sequence[Source]) -> None:
    if (stored := episodes(into).select(pl.len()).collect().item()) != sum(s.own.height for s in sources):
        raise RunFolderError(f"{into} holds {stored:,} episodes after the merge and not all; delete it and merge again")


def _results(into: Path, planned: pl.DataFrame) -> pl.DataFrame:
    """One row a planned cell, as the ``run`` command writes them: of replicates and decision maps too."""
    run, rows = read(into), episodes(into)
    stored = Stored(rows, turns(into), {one.name: one for one in run.sweep.conditions}, run.samples)
    found = with_anytime(score(rows, planned, run.verdicts.lazy()), rows, run.sweep.precision, run.sweep.seed)
    found = with_own(with_decisions(found, stored), run.sweep.measures, rows, stored.turns, log.warning)
    return with_resources(found, into, run.sweep)


def _refusal(conflicts: Sequence[Conflict]) -> str:
    parts = [
        f"{counted(len(one.keys), one.kind)} of {one.one} and {one.other} ({', '.join(one.keys[:SHOWN])}"
        f"{', ...' if len(one.keys) > SHOWN else ''})"
        for one in conflicts
        if not one.taken
    ]
    return f"the same key has other answers: {'; '.join(parts)}. Say whose count with --prefer DIR; nothing was written"
