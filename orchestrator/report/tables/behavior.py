"""The tables of kinds of replies, malformed calls, hard samples, and what replicas did with their GPUs."""

from urllib.parse import quote

import polars as pl

from envs.plural import pluralize
from envs.reply_kinds import KINDS
from envs.tool_calls import Fault, find_fault
from envs.types import Action
from orchestrator.report.measures.reply_kinds import SAME_LETTER, WARNING_PERCENT, reply_kinds
from orchestrator.report.measures.sample_accuracy import hardest_samples, sample_accuracy
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.tables.parts import Row, model_conditions
from orchestrator.report.tables.table import Column, Line, Table, TableCell, columns, line
from orchestrator.storage.replica_time import HELD, ReplicaTime, describe, time_by_group, weigh
from sweeps.protocol import Protocol

KIND_COLUMNS = KINDS | {SAME_LETTER: "always the same letter"}


def reply_kinds_table(run_data: RunData) -> Table:
    """Return the share of each kind of reply over all scenarios, empty if there is none; the CSV file has every cell."""
    rows = reply_kinds(run_data)
    heads = columns("model", ("replies", *KIND_COLUMNS.values()))
    if rows.is_empty() or not rows.select(pl.sum_horizontal(*KIND_COLUMNS).sum()).item():
        return Table("reply-kinds", "", heads, ())
    lines, notes = [], []
    for model, condition, part in model_conditions(run_data, rows):
        replies = int(part["replies"].sum())
        shares = {kind: float((part[kind] * part["replies"]).sum() / replies) for kind in KIND_COLUMNS}
        lines.append(
            line(f"{model}, {condition}", [TableCell(str(replies), replies), *map(_share_cell, shares.values())])
        )
        high = [f"{share:.0f}% {KIND_COLUMNS[kind]}" for kind, share in shares.items() if share > WARNING_PERCENT]
        notes += [f"{model}, {condition}: {', '.join(high)}"] if high else []
    title = (
        f"kinds of replies that the benchmark's reading hides, percent of all replies (! above {WARNING_PERCENT:.0f}%)"
    )
    if unread := int(rows["unread"].sum()):
        notes.append(f"{unread:,} replies were not looked at: their samples are missing (report --data DIR)")
    return Table("reply-kinds", title, heads, tuple(lines), rows, notes=tuple(notes))


def _share_cell(share: float) -> TableCell:
    return TableCell(f"{share:.1f}{' !' if share > WARNING_PERCENT else ''}", share)


COUNTS = ("malformed", *(kind.value for kind in Fault))


@cached_per_run
def malformed_calls(run_data: RunData) -> pl.DataFrame:
    """Return a row per cell of tool calls: names, turns, malformed, then a count per ``Fault``, over the scored episodes."""
    last = run_data.last_turns.filter(pl.col("action") == Action.UNPARSABLE, protocol=Protocol.TOOLS.value)
    last = last.join(run_data.scored.select("key"), on="key", how="semi", maintain_order="left")
    replies = last.select("scenario", "reply").iter_rows()
    kinds = [find_fault(scenario, reply or "").value for scenario, reply in replies]
    faults = last.select("cell").with_columns(pl.Series("kind", kinds, dtype=pl.String))
    counts = [(pl.col("kind") == kind.value).sum().cast(pl.Int64).alias(kind.value) for kind in Fault]
    by_cell = faults.group_by("cell").agg(pl.len().cast(pl.Int64).alias("malformed"), *counts)
    names = ("model", "condition", "scenario", "cell", "turns")
    rows = run_data.rows.filter(protocol=Protocol.TOOLS.value).select(names)
    return rows.join(by_cell, on="cell", how="left").with_columns(pl.col(COUNTS).fill_null(0)).sort("cell")


def malformed_calls_table(run_data: RunData) -> Table:
    """Return the share of calls that are malformed and the count of each kind, a line per model and condition."""
    numbers = malformed_calls(run_data)
    sums = numbers.group_by("model", "condition").agg(pl.col("turns", *COUNTS).sum())
    lines, ranked = [], 0
    for model, condition, part in model_conditions(run_data, sums):
        ranked += model not in run_data.baselines
        row = part.row(0, named=True)
        share = f"{100 * row['malformed'] / row['turns']:.1f}% of {row['turns']:,}" if row["turns"] else "-"
        cells = [TableCell(share), *(TableCell(str(row[kind.value])) for kind in Fault)]
        lines.append(line(f"{model}, {condition}", cells))
    title = "tool calls: malformed calls, percent of all turns; number of each kind"
    return Table("tools-malformed", title, columns("model", COUNTS), tuple(lines), numbers.drop("cell"), ranked)


HARDEST = 5
"""Number of samples shown per scenario."""


def hard_samples_table(run_data: RunData) -> Table:
    """Return the hardest samples of each scenario, over all models and conditions but the reference."""
    rows = hardest_samples(run_data, HARDEST)
    lines = tuple(map(_hard_sample, rows.iter_rows(named=True)))
    title = (
        "hardest samples: right answers over all models and conditions, their percentage (95% interval, answers of one model as "
        "one cluster), and one episode to look at"
    )
    notes = tuple(map(_count_extremes, sample_accuracy(run_data).partition_by("scenario", maintain_order=True)))
    heads = columns("sample", ("right", "percent", "episode"))
    return Table("hard-samples", title, heads, lines, rows, len(lines), notes)


def _hard_sample(row: Row) -> Line:
    cells = (
        TableCell(f"{row['right']} of {row['answers']}", row["right"] / row["answers"]),
        TableCell(f"{row['share']:.1f} ({row['share_low']:.1f} to {row['share_high']:.1f})", row["share"]),
        TableCell(row["example"], link=f"#episode={quote(row['example'])}"),
    )
    return line(f"{row['scenario']} {row['sample_id']:04d}", cells)


def _count_extremes(samples: pl.DataFrame) -> str:
    """Return a sentence on the samples of one scenario that all models answer alike."""
    wrong, right = (int(samples[name].sum()) for name in ("all_wrong", "all_right"))
    return (
        f"{samples['scenario'][0]}: of {pluralize(samples.height, 'sample')}, {wrong:,} have no right answer and {right:,} have "
        "no wrong answer; samples with equal intervals are in the order of their ids"
    )


TIME_COLUMNS = (
    Column("model or judge", number=False),
    Column("GPUs", "of one replica"),
    Column("held", "hours of all replicas, over all attempts"),
    *(Column(f"{part} %", "share of the held time") for part in HELD),
    Column("waiting", "hours in which replicas waited for Ray to place and start them; not in held"),
)
TIME_SCHEMA = {"group": pl.String, "gpus": pl.Float64, **dict.fromkeys(("waiting", *HELD), pl.Float64)}


def replica_time_table(run_data: RunData) -> Table:
    """Return a line per model or judge whose replicas held resources; ``numbers`` are in replica-seconds."""
    times = {name: time for name, time in sorted(time_by_group(run_data.folder).items()) if time.held}
    rows = [(name, time.gpus, time.waiting, *(getattr(time, part) for part in HELD)) for name, time in times.items()]
    numbers = pl.DataFrame(rows, schema=TIME_SCHEMA, orient="row")
    lines = tuple(_time_line(name, time) for name, time in times.items())
    return Table("replica-time", "".join(describe(run_data.folder)), TIME_COLUMNS, lines, numbers)


def _time_line(name: str, time: ReplicaTime) -> Line:
    hours = weigh([time])[1]
    shares = (TableCell(f"{100 * getattr(time, part) / time.held:.0f}", getattr(time, part)) for part in HELD)
    total = sum(hours[part] for part in HELD)
    cells = (TableCell(f"{time.gpus:g}", time.gpus), TableCell(f"{total:,.2f}", total), *shares)
    return line(name, (*cells, TableCell(f"{hours['waiting']:,.2f}", hours["waiting"])))
