"""Merges run folders of one configuration into a new folder, for example those of a sweep that ran on two clusters.

The new folder has each episode once, with checksums. Differing answers are an error unless a folder is preferred.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import polars as pl

from actors.text.printable import list_first
from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.gold.labels import add_labels, read_labels
from orchestrator.merging import answers
from orchestrator.merging.answers import Source, assign_episodes, merge_verdicts, write_verdicts
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.metrics import score, write_results
from orchestrator.report.scores.package_measures import add_measures
from orchestrator.report.scores.precision_stops import add_anytime_intervals
from orchestrator.storage import checksums, loaded_weights, lock, reused, run_folder
from orchestrator.storage.disk import disk_errors
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.progress_log import Point, append_point, playing_times
from sweeps.spec import Sweep

log = logging.getLogger(__name__)

RECORD = "merged.json"
"""The file in the new folder with the counts per folder and the conflicts."""


@dataclass(frozen=True)
class MergeSummary:
    """The outcome of a merge, as stored in ``RECORD``."""

    taken: dict[str, int]
    """Folder -> number of episodes taken from it."""
    gave_way: int
    """Number of failed episodes that were replaced by another folder's answer."""
    verdicts: int
    """Number of verdicts in the new folder."""
    conflicts: dict[str, list[str]]
    """``episode`` or ``verdict`` -> keys of those that differ between folders."""
    prefer: str
    """The folder whose answers to these keys are taken; empty without conflicts."""
    pending: int
    """Number of planned episodes that none of the folders has."""

    def lines(self) -> Iterator[str]:
        """Yield lines that describe the merge."""
        yield from (f"{pluralize(count, 'episode')} from {name}" for name, count in self.taken.items())
        if self.verdicts:
            yield pluralize(self.verdicts, "verdict")
        if self.gave_way:
            yield f"{pluralize(self.gave_way, 'failed episode')} replaced by another folder's answer"
        yield from (f"{conflict} differed: took those of {self.prefer}" for conflict in _describe(self.conflicts))
        yield f"{pluralize(self.pending, 'planned episode')} pending; details: {RECORD}"


def merge(folders: Sequence[Path], into: Path, prefer: Path | None = None) -> MergeSummary:
    """Merge run folders, whose parts are held (``hold_parts``), into a new one; raises RunFolderError.

    ``prefer`` names the folder whose answer is taken if answers to a key differ; without it, differing answers are an error and
    nothing is written. Of two people's labels of an answer the preferred folder's counts, else the first folder's.
    """
    sums = [checksums.read_sums(folder) for folder in folders]  # before the check of the locks, to miss no change
    _check_folders(folders, into, prefer)
    sweep = _merge_sweeps(folders)
    weights = _merge_weights(sweep, folders)
    planned, keys = _merge_plans(folders)
    sources = [Source(folder, run_folder.planned_episodes(folder).collect()) for folder in folders]
    preferred = [*map(os.path.realpath, folders)].index(os.path.realpath(prefer)) if prefer else 0
    differing, gave_way = assign_episodes(sources, preferred)
    judged, differing_verdicts = merge_verdicts(sources, preferred)
    labels = [answers.rows_of_keys(read_labels(source.folder).lazy(), source.agreed) for source in sources]
    conflicts = {kind: keys for kind, keys in (("episode", differing), ("verdict", differing_verdicts)) if keys}
    if conflicts and not prefer:
        listed = " and in ".join(_describe(conflicts))
        raise RunFolderError(f"the folders differ in {listed}: choose one with --prefer DIR; nothing was written")
    if [*map(checksums.read_sums, folders)] != sums:
        raise RunFolderError("a folder was written while it was read; wait for its driver, and run `merge` again")
    with disk_errors(into), run_folder.claim(into, sweep, left_out=run_folder.read_bad_lines(folders[0])):
        run_folder.write_plan(into, planned.to_dicts(), keys)
        if weights:
            checksums.write(into / loaded_weights.FILE, run_folder.to_json(weights))
        with closing(EpisodeStore(into)) as store:
            for source in sources:
                reused.record_reused(into, answers.rows_of_keys(reused.read_reused(source.folder).lazy(), source.own))
                answers.write_episodes(store, source.folder, source.own)
            store.compact()
        write_verdicts(into, judged)
        add_labels(into, pl.concat([labels[preferred], *labels]))
        answers.write_checks(folders, into)
        taken = {str(source.folder): source.own.height for source in sources}
        preferred_folder, pending = str(prefer) if conflicts else "", keys.len() - sum(taken.values())
        summary = MergeSummary(taken, gave_way, judged.height, conflicts, preferred_folder, pending)
        checksums.write(into / RECORD, run_folder.to_json(asdict(summary)))
        _write_results(folders, into, planned)
    return summary


def _describe(conflicts: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{pluralize(len(keys), kind)} ({list_first(keys, 5)})" for kind, keys in conflicts.items()]


def _check_folders(folders: Sequence[Path], into: Path, prefer: Path | None) -> None:
    """Raise RunFolderError if the folders cannot be merged."""
    run_folder.check_distinct(folders)
    if prefer and os.path.realpath(prefer) not in map(os.path.realpath, folders):
        names = ", ".join(map(str, folders))
        raise RunFolderError(f"--prefer {prefer} is not one of the merged folders; type one of {names}")
    if len(folders) < 2:
        raise RunFolderError("merge needs two or more folders before --output")
    for folder in folders:
        if lock.holder(folder) is not None:
            raise RunFolderError(f"{folder} is being written; wait for its driver, or stop it")
    if any((into / name).exists() for name in (run_folder.RESOLVED, run_folder.PLAN, "episodes")):
        raise RunFolderError(
            f"{into} has a run already; name a new folder with --output, and {into} as one of the merged folders"
        )


def _merge_weights(sweep: Sweep, folders: Sequence[Path]) -> dict[str, loaded_weights.Weights]:
    """Return model -> its weights; raises RunFolderError if two folders have played a model with different weights."""
    records = [loaded_weights.LoadedWeights(folder) for folder in folders]
    for one, other in combinations(records, 2):
        if different := [model.name for model in sweep.models if one.differs_from(other, model)]:
            raise RunFolderError(
                f"{one.folder} and {other.folder} have played {different[0]} with different weights: they are two runs; "
                "`proactive-sweep compare` sets them side by side"
            )
    return {name: weights for record in reversed(records) for name, weights in record.models.items()}


def _merge_sweeps(folders: Sequence[Path]) -> Sweep:
    """Return the merged sweep, whose name joins theirs by ``+``.

    Raises RunFolderError if the sweeps differ in more than their names and either their models or their conditions.
    """
    sweeps = [*map(run_folder.stored_sweep, folders)]
    settings = [{**run_folder.settings(sweep), "name": ""} for sweep in sweeps]
    for folder, other in zip(folders[1:], settings[1:], strict=True):
        changed = run_folder.differences(settings[0], other, between=", there it is ")
        blocking = [line for line in changed if not line.startswith(("models was", "conditions was"))]
        if blocking or len(changed) > 1:
            detail = "; ".join((blocking or changed)[: run_folder.MAX_DIFFERENCES])
            raise RunFolderError(f"{folders[0]} and {folder} have different configurations: {detail}")
    models = {model.name: model for sweep in sweeps for model in sweep.models}
    conditions = {condition.name: condition for sweep in sweeps for condition in sweep.conditions}
    names = dict.fromkeys(sweep.name for sweep in sweeps)
    update = {"models": tuple(models.values()), "conditions": tuple(conditions.values()), "name": "+".join(names)}
    return sweeps[0].model_copy(update=update)


def _merge_plans(folders: Sequence[Path]) -> tuple[pl.DataFrame, pl.Series]:
    """Return planned cells and keys of all folders; raises RunFolderError if two folders plan different samples of a cell."""
    if len({run_folder.read_bad_lines(folder) for folder in folders}) > 1:
        raise RunFolderError("the folders skipped different bad lines of their data, so their plans differ")
    keys = []
    for folder in folders:
        if (planned := run_folder.planned_keys(folder)) is None:
            raise RunFolderError(f"{folder}/{run_folder.KEYS} is missing; rerun the `run` command to write it")
        keys.append(planned.collect()["key"])
    all_keys = pl.concat(keys).unique(maintain_order=True)
    cells = pl.concat([pl.DataFrame(run_folder.planned_cells(folder)) for folder in folders], how="diagonal")
    if "full" in cells.columns:  # a sweep with a precision rule
        cells = cells.with_columns(pl.coalesce("full", "planned").alias("full"))
    cells = cells.unique(maintain_order=True)
    counts = all_keys.str.replace(r"/[^/]*$", "").value_counts(name="count")
    named = cells.join(counts.rename({"key": "cell"}), on="cell", how="left")
    wrong = named.filter((pl.col("planned") != pl.col("count").fill_null(0)) | pl.col("cell").is_duplicated())
    if wrong.height:
        raise RunFolderError(
            f"the folders plan different samples of {wrong['cell'][0]}: their data differ, or the sweep's precision rule stopped"
            " it after different numbers of episodes; merge only one of them, with the folders of other models"
        )
    return cells, all_keys


def _write_results(folders: Sequence[Path], into: Path, planned: pl.DataFrame) -> None:
    """Write results.json as ``run`` does, and in progress.jsonl when the parts were played."""
    run, stored = read_run(into), episodes(into)
    sweep, times = run.sweep, [time for folder in folders for time in playing_times(folder) or ()]
    rows = score(stored, planned, run.verdicts.lazy(), reference=sweep.reference_conditions)
    rows = add_anytime_intervals(rows, stored, sweep.precision, sweep.seed)
    write_results(into, add_measures(rows, into, sweep, stored, run.samples, log.warning))
    for done, time in ((0, min(times)), (int(rows["finished"].sum()), max(times))) if times else ():
        append_point(into, Point(done=done, at=int(1000 * time.timestamp())))
