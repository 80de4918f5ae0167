"""``models try DIR --flip-rate N``: plays a share of a run again in other batches, and counts changed answers.

Batch size is not part of a key, so an episode of a repeat has the key of the original. Each batch size has a run folder of its
own, which resumes like any run; the original run is only read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import polars as pl

from envs.chance import chance
from envs.errors import RunFolderError
from envs.plural import pluralize
from envs.types import UNSCORED, Ending
from orchestrator.datasets.staging import data_folder, pin_data
from orchestrator.execution.attempt import run
from orchestrator.execution.score import AttemptOutcome
from orchestrator.inspection import service_cost
from orchestrator.merging.reuse import REJECTION_REASONS, find_reusable
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.report.scores.judge_agreement import own_judge_key
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.report.tables.paper_comparison import RATES_FILE
from orchestrator.report.tables.table import MISSING, Table, TableCell, columns, line
from orchestrator.storage import safe_write
from orchestrator.storage.episode_store import turns
from orchestrator.storage.run_folder import planned_episodes, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.sections import Tracking
from sweeps.spec import ModelSpec, Protocol, Selection, Sweep

BATCHES = (1, 8)
"""Concurrent episodes of a worker and its engine in the repeats."""
BATCH_OPTION = {"vllm": "max_num_seqs", "transformers": "batch"}
"""Backend -> option of the engine for its number of concurrent requests."""
VERDICT = ("option", "category", "action", "move", "read_as")
"""Columns of a turn with the parsing of its reply and the response of the game."""
MEASURES = {"reply": "changed replies", "correct": "changed right or not"}
"""Measure -> heading of its column. Replies are counted by turn, right answers by episode."""
PARTS = {"changed": pl.Int64, "of": pl.Int64, "percent": pl.Float64, "low": pl.Float64, "high": pl.Float64}
RATES = {
    **dict.fromkeys(("setting", "model"), pl.String),
    "episodes": pl.Int64,
    **{f"{name}_{part}": kind for name in MEASURES for part, kind in PARTS.items()},
}
DrawnIds = Mapping[bool, Mapping[str, Sequence[int]]]
"""Open-ended or not -> scenario -> ids of the samples to play again."""


@dataclass(frozen=True)
class Repeats:
    """A share of a run, to be played again in other batches."""

    folder: Path
    """The run folder."""
    share: float
    """Percent of the samples of each scenario."""
    sweep: Sweep
    """The sweep of the run."""
    ids: DrawnIds

    @property
    def table(self) -> Path:
        """The file with the rates, in the folder of the repeats."""
        return self.folder / RATES_FILE.format(f"share-{self.share:g}-seed-0")

    @property
    def output(self) -> Path:
        return self.table.parent

    @property
    def players(self) -> tuple[ModelSpec, ...]:
        """The models and the judge that a repeat starts."""
        return (*repeated_models(self.sweep), *([self.sweep.judge.model] if self.sweep.judge else []))

    def sweeps(self) -> Iterator[tuple[str, Sweep]]:
        """Yield the name of each repeat and its sweep."""
        for batch in BATCHES:
            yield f"batch-{batch}", _repeat_sweep(self.sweep, self.ids, batch, self.output / f"batch-{batch}")

    def lines(self) -> Iterator[str]:
        """Describe the work and the cost of services, before it is done."""
        for name, sweep in self.sweeps():
            plan = build_plan(sweep)
            rows = cells_with_progress(plan, Path(sweep.output))
            pending = {row["cell"]: row["planned"] - row["done"] for row in rows}
            yield f"{name}: {pluralize(plan.total_with_stops, 'episode')}, {sum(pending.values()):,} pending"
            estimates = service_cost.estimates(plan, pending, data_folder(sweep))
            yield from (f"{name}: {line}" for line in service_cost.lines(estimates, sweep.cluster.max_cost))


def prepare_repeats(folder: Path, share: float, data: Path | None = None) -> Repeats:
    """Plan the repeats of a run folder; nothing is written or played.

    ``data`` is the benchmark's folder if it moved. Raises RunFolderError if the folder has no run or no sample to play again.
    """
    sweep = stored_sweep(folder)
    moved = sweep if data is None else sweep.model_copy(update={"data": str(data)})
    return Repeats(folder, share, moved, draw_samples(sweep, folder, share))


def draw_samples(sweep: Sweep, folder: Path, share: float) -> DrawnIds:
    """Draw ``share`` percent of each scenario's samples, at least one, among those stored in every cell.

    A larger share contains the smaller. Raises RunFolderError if no sample is stored in every cell.
    """
    names = [model.name for model in repeated_models(sweep)]
    is_open = pl.col("protocol").is_in([protocol for protocol in Protocol if protocol.is_open_ended])
    rows = planned_episodes(folder).filter(pl.col("model").is_in(names)).with_columns(is_open=is_open).collect()
    repeated: dict[bool, dict[str, list[int]]] = {}
    for (open_ended, scenario), part in rows.group_by("is_open", "scenario", maintain_order=True):
        everywhere = part.group_by("sample_id").agg(pl.col("cell").n_unique()).filter(cell=part["cell"].n_unique())
        ids_by_scenario = repeated.setdefault(bool(open_ended), {})
        if ids := everywhere["sample_id"].to_list():
            ranked = sorted(ids, key=lambda number: (chance(0, scenario, number, "flip-rate").random(), number))
            ids_by_scenario[str(scenario)] = sorted(ranked[: ceil(share / 100 * len(ids) - 1e-9)])
    if not repeated or not all(repeated.values()):
        raise RunFolderError(f"{folder} has no sample that every cell has played; finish the run first")
    return repeated


def repeated_models(sweep: Sweep) -> tuple[ModelSpec, ...]:
    """Return all models except people."""
    return tuple(model for model in sweep.models if model.backend != "human")


def _repeat_sweep(sweep: Sweep, ids: DrawnIds, batch: int, output: Path) -> Sweep:
    """Return the sweep that plays these samples into ``output``, with the same keys and without MLflow."""
    scenarios = tuple(name for name in sweep.scenarios if all(name in by_scenario for by_scenario in ids.values()))
    models = tuple(_with_batch(model, batch) for model in repeated_models(sweep))
    open_ended = sweep.open_ended.model_copy(update={"selection": _selection(sweep.open_ended.selection, ids, True)})
    return sweep.model_copy(update={
        "output": str(output), "models": models, "scenarios": scenarios, "tracking": Tracking(uri="none"), "measures": (),
        "selection": _selection(sweep.selection, ids, False), "open_ended": open_ended, "precision": None,
    })  # fmt: skip


def _selection(selection: Selection, ids: DrawnIds, is_open: bool) -> Selection:
    chosen = {name: list(sample_ids) for name, sample_ids in ids.get(is_open, {}).items()}
    return Selection(filtered=selection.filtered, ids=chosen) if chosen else selection


def _with_batch(model: ModelSpec, batch: int) -> ModelSpec:
    if model.backend == "builtin":
        return model
    option = BATCH_OPTION.get(model.backend)
    options = {**model.options, option: batch} if option else model.options
    return model.model_copy(update={"in_flight": batch, "options": options})


def play(repeats: Repeats, say: Callable[[str], None] = print) -> AttemptOutcome:
    """Play the pending episodes of every repeat, up to an interrupted one; return the outcome with the highest exit code."""
    outcomes = []
    for name, sweep in repeats.sweeps():
        say(f"{name}: playing into {sweep.output}")
        outcomes.append(run(sweep, Path(sweep.output), say=say))
        if outcomes[-1].interrupted:
            break
    return max(outcomes, key=lambda outcome: outcome.exit_code)


def compare_repeats(repeats: Repeats) -> tuple[pl.DataFrame, list[str]]:
    """Return the rates of changes (``RATES``), which are also written beside the repeats, and notes."""
    rates, notes, folder = [], list[str](), repeats.folder
    for name, sweep in repeats.sweeps():
        pinned = pin_data(sweep)
        reusable = find_reusable(pinned, build_plan(pinned), str(folder), folder, folder)
        if not reusable.own.height and not reusable.left:
            raise RunFolderError(
                f"{folder} has no key of this version and data, so differences would not be due to the batch size"
            )
        notes += [f"{n:,} of {folder} {REJECTION_REASONS[why]}: not compared" for why, n in reusable.left.items()]
        rates.append(_rates(sweep, folder, Path(sweep.output), reusable.own, name))
    frame = pl.concat(rates)
    rounded = frame.with_columns(pl.selectors.float().round_sig_figs(9))  # as all CSV files have
    safe_write.write(repeats.table, rounded.write_csv().encode())
    return frame, list(dict.fromkeys(notes))


def _rates(sweep: Sweep, folder: Path, repeated: Path, rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return a row of ``RATES`` per model; ``rows`` are the run's episodes that may be compared."""
    judge = own_judge_key(sweep)
    again = planned_episodes(repeated).filter(pl.col("ending") != Ending.FAILED).collect()
    sides = [_outcomes(part, at, judge) for part, at in ((rows, folder), (again, repeated))]
    names = rows.select("key", "model", "condition", "scenario", "sample_id")
    episodes = names.join(sides[0].join(sides[1], on="key", suffix="_after"), on="key")
    changes = {
        "reply": _changed_turns(sweep, folder, repeated, episodes),
        "correct": episodes.with_columns(changed=pl.col("right") != pl.col("right_after")).drop_nulls("changed"),
    }
    lines = []
    for (model,), own in episodes.sort("model").group_by("model", maintain_order=True):
        parts = {measure: _rate(changes[measure].filter(model=model)) for measure in MEASURES}
        figures = {f"{measure}_{part}": value for measure, rate in parts.items() for part, value in rate.items()}
        lines.append({"setting": name, "model": model, "episodes": own.height, **figures})
    return pl.DataFrame(lines, schema=RATES, orient="row")


def _outcomes(rows: pl.DataFrame, folder: Path, judge: str) -> pl.DataFrame:
    """Return key and right: by the judge for open-ended answers in one turn, by the game for all others."""
    judged = verdicts(folder).filter(pl.col("judge") == judge).select("key", "aggregate").collect()
    game = pl.when(~pl.col("ending").is_in(UNSCORED)).then(pl.col("correct"))
    right = pl.when(pl.col("ending") == Ending.ANSWERED).then(pl.col("aggregate")).otherwise(game).alias("right")
    return rows.join(judged, on="key", how="left").select("key", right)


def _changed_turns(sweep: Sweep, folder: Path, repeated: Path, episodes: pl.DataFrame) -> pl.DataFrame:
    """Return the turns that start from the same state: up to an episode's first changed verdict, all where none follows."""
    keys = episodes.select("key").lazy()
    before, after = (
        turns(at).join(keys, on="key", how="semi").select("key", "turn", "reply", *VERDICT) for at in (folder, repeated)
    )
    pairs = before.join(after, on=["key", "turn"], suffix="_after").sort("key", "turn").collect()
    verdict = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_after")) for name in VERDICT)
    pairs = pairs.with_columns(verdict=verdict, changed=pl.col("reply") != pl.col("reply_after"))
    earlier = pl.col("verdict").cast(pl.Int64).cum_sum().shift(1, fill_value=0).over("key")
    afresh = pl.col("condition").is_in([condition.name for condition in sweep.conditions if condition.rules])
    return pairs.with_columns(earlier=earlier).join(episodes, on="key").filter((pl.col("earlier") == 0) | afresh)


def _rate(rows: pl.DataFrame) -> dict[str, float | None]:
    """Return changed and total counts, percent and its 95% interval, over as many independent observations as samples."""
    count, changed = rows.height, int(rows["changed"].sum())
    if not count:
        return {"changed": 0, "of": 0, "percent": None, "low": None, "high": None}
    samples = rows.select("scenario", "sample_id").n_unique()
    low, high = proportion_interval(samples * changed / count, samples)
    return {"changed": changed, "of": count, "percent": 100 * changed / count, "low": 100 * low, "high": 100 * high}


def rate_table(rates: pl.DataFrame) -> Table:
    """Return a line per repeat and model."""
    rows = rates.iter_rows(named=True)
    lines = [line(f"{row['model']}, {row['setting']}", [_rate_cell(row, name) for name in MEASURES]) for row in rows]
    title = "changed when played again in other batches: percent with 95% interval over samples"
    return Table("flip-rate", title, columns("model, batch", MEASURES.values()), tuple(lines), rates)


def _rate_cell(row: dict[str, object], name: str) -> TableCell:
    if row[f"{name}_percent"] is None:
        return MISSING
    text = "{:.1f} ({:.1f} to {:.1f}), {:,} of {:,}"
    return TableCell(text.format(*(row[f"{name}_{part}"] for part in ("percent", "low", "high", "changed", "of"))))
