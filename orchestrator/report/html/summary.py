"""What was run, and what is unfinished or went wrong.

Every sentence is computed from this run; what is unfinished, has no answer or is in doubt comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from actors.prompts import VERSIONS
from actors.turn_judge import turn_judge_key
from orchestrator.report import resources
from orchestrator.report.grid_parts import models
from orchestrator.report.html.escape import visible
from orchestrator.report.html.phrasing import listed, ordered
from orchestrator.report.metrics import CUT
from orchestrator.report.outcomes import told
from orchestrator.report.provenance import foreign, subset
from orchestrator.report.run_data import RunData
from orchestrator.report.wording import counted, share
from orchestrator.storage.episode_store import damaged
from orchestrator.storage.run_folder import read_status
from sweeps.conditions import CONDITIONS
from sweeps.spec import Protocol, Sweep

Row = Mapping[str, Any]


class Fact(NamedTuple):
    """A line of what was run."""

    name: str
    text: str


def facts(run_data: RunData, judged: pl.DataFrame) -> list[Fact]:
    """What was run, on what, with which versions."""
    sweep, rows, status = run_data.sweep, run_data.rows, read_status(run_data.folder)
    found = [
        Fact("Played", _played(rows)),
        Fact("Models", _models(run_data)),
        Fact("Scenarios", listed(ordered(rows["scenario"]), 7)),
        Fact("Conditions", listed(ordered(rows["condition"], CONDITIONS), 12)),
        Fact("Data", _data(run_data)),
        Fact("Decoding", _decoding(sweep)),
        Fact("Prompt text", _prompt(run_data)),
        Fact("Judge", _judge(run_data, judged)),
        Fact("Intervals", told(run_data)),
        Fact("Seed", str(sweep.seed)),
        Fact("Took", resources.told(run_data)),
        Fact("Program", _program(status)),
    ]  # fmt: skip
    return [fact for fact in found if fact.text]


def problems(run_data: RunData) -> list[str]:
    """What is unfinished, went wrong or is in doubt, one sentence each; empty when all is well."""
    status = read_status(run_data.folder)
    return [
        *_running(status),
        *_unfinished(run_data.rows),
        *_given_up(status),
        *_cut_short(run_data),
        *_errors(run_data),
        *[visible(note, 400) for note in run_data.notes],
        *[
            f"{path.parent.name}/{visible(path.name)} cannot be used and counts as absent"
            for path in damaged(run_data.folder)
        ],
    ]


def _played(rows: pl.DataFrame) -> str:
    planned, finished = int(rows["planned"].sum()), int(rows["finished"].sum())
    episodes, cells = counted(planned, "planned episode"), counted(rows.height, "cell")
    return f"{finished:,} of {episodes} ({share(finished, planned)}), {cells}"


def _models(run_data: RunData) -> str:
    played = models(run_data, run_data.rows["model"])
    baselines = [name for name in played if name in run_data.baselines]
    others = [name for name in played if name not in run_data.baselines]
    parts = [f"{len(others)}: {listed(others, 40)}"] if others else ["none"]
    return "; ".join([*parts, *([f"baselines: {listed(baselines, 10)}"] if baselines else [])])


def _data(run_data: RunData) -> str:
    other, part = foreign(run_data), subset(run_data)
    samples = run_data.rows.group_by("scenario").agg(pl.col("planned").max())["planned"].sum()
    kinds = list(dict.fromkeys(other.values())) or ["ids and numbers are those of the published benchmark"]
    filtered = "the paper's filter" if run_data.sweep.selection.filtered else "unfiltered"
    text = f"{counted(int(samples), 'sample')}, {filtered}; {'; '.join(kinds[:2])}"
    return visible(text + (f"; a subset in {listed(ordered(part), 7)}" if part and not other else ""), 600)


def _decoding(sweep: Sweep) -> str:
    """Of each protocol that the sweep plays."""
    decodings = []
    for protocol in sweep.protocols:
        sampling = sweep.open_ended.sampling if protocol.in_words else sweep.sampling
        decodings.append(f"{protocol.told} {sampling.told}, at most {sampling.max_tokens:,} new tokens a reply")
    return "; ".join(decodings)


def _prompt(run_data: RunData) -> str:
    versions = listed(list(dict.fromkeys(VERSIONS[protocol] for protocol in run_data.sweep.protocols)), 4)
    if run_data.samples and not run_data.episodes.is_empty():
        return f"{versions}: the keys of the stored episodes agree with it"
    return f"{versions} in this program; without the data folder the stored keys cannot be checked against it"


def _judge(run_data: RunData, judged: pl.DataFrame) -> str:
    if "judge" in judged.columns and judged.height:
        return f"{listed(judged['judge'].cast(pl.String).unique().sort().to_list(), 3)}: {counted(judged.height, 'verdict')}"
    if "oeg" in set(run_data.rows["protocol"]):
        return "open-ended answers are not judged yet"
    if judge := run_data.sweep.turn_judge:
        return f"{turn_judge_key(judge)}: reads each answer before the next picture is shown"
    if run_data.sweep.protocols == (Protocol.TOOLS,):
        return "none: function calls are read by rule"
    return "none: multiple choice is read by rule, as the package reads it"


def _program(status: Row) -> str:
    packages = status.get("packages") or {}
    named = [
        f"{name} {packages[name]}" for name in ("proactive-sweep", "vllm", "transformers", "ray") if name in packages
    ]
    commit = f"commit {str(status['commit'])[:12]}" if status.get("commit") else ""
    python = f"Python {status['python']}" if status.get("python") else ""
    return visible(", ".join(part for part in (*named, python, commit) if part) or "not recorded yet")


def _running(status: Row) -> Iterator[str]:
    if status.get("running"):
        yield "the sweep is still running: this page is a snapshot"


def _unfinished(rows: pl.DataFrame) -> Iterator[str]:
    left = rows.filter(pl.col("finished") < pl.col("planned"))
    if left.is_empty():
        return
    pending = int((left["planned"] - left["finished"]).sum())
    yield (
        f"{pending:,} of {counted(int(rows['planned'].sum()), 'planned episode')} not played yet, in {left.height} of "
        f"{counted(rows.height, 'cell')}: {listed(left['cell'].to_list())}; their measures are of what is played"
    )


def _given_up(status: Row) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for cell in status.get("cells") or ():
        if cell.get("reason"):
            reasons.setdefault(str(cell["reason"]), []).append(str(cell["cell"]))
    for reason, cells in reasons.items():
        yield f"{counted(len(cells), 'cell')} stopped ({listed(cells, 2)}): {visible(reason, 300)}"


def _cut_short(run_data: RunData) -> Iterator[str]:
    for ending, what in CUT.items():
        rows = run_data.rows.filter(pl.col(ending) > 0)
        if rows.height:
            yield (
                f"{counted(int(rows[ending].sum()), 'episode')} in {counted(rows.height, 'cell')} {what}, counted as not right; "
                "the table of cells shows what acc is at most"
            )


def _errors(run_data: RunData) -> Iterator[str]:
    rows = run_data.rows
    total = int(rows["errors"].sum())
    if not total:
        return
    kinds = {name: int(rows[name].sum()) for name in ("unprocessable", "refused", "failed")}
    yield (
        f"without an answer, and in no measure: {counted(total, 'episode')} "
        f"({', '.join(f'{n:,} {name}' for name, n in kinds.items() if n)})"
    )
    causes = run_data.episodes.filter(pl.col("error").is_not_null()).group_by("error").len().sort("len", "error")
    for cause, count in causes.reverse().head(3).iter_rows():
        yield f"{counted(count, 'time')}: {visible(cause, 240)}"
