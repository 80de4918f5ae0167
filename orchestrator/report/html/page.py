"""Writes ``report.html``, a file that opens from disk, sends no request, and escapes all text.

The same folder, data and seed give the same bytes. Every sentence is computed from this run.
"""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined

from actors.playing.judge import turn_judge_key
from actors.playing.prompts import VERSIONS
from actors.text.printable import list_first
from envs import in_paper_order
from envs.plural import pluralize
from envs.types import ERRORS
from orchestrator.report.figures.draw import CAPTIONS, figure_images
from orchestrator.report.html.text import policy_hash, visible
from orchestrator.report.measures.clustering import describe_clusters
from orchestrator.report.paper.published import describe_decoding, foreign_scenarios, subset_scenarios
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.answer import answer_sentences, unreadable_lines
from orchestrator.report.scores.metrics import CUT_SHORT_REASONS
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.storage import lock, safe_write
from orchestrator.storage.status import last_status
from orchestrator.storage.verdict_store import judge_counts
from sweeps.protocol import LABELS


def write_page(run_data: RunData) -> Path:
    """Write ``report.html`` into the run folder and return its path. It allows its own style by hash, and nothing else."""
    style = (files(__package__) / "report.css").read_text("utf-8")
    policy = f"default-src 'none'; img-src data:; style-src {policy_hash(style)}; base-uri 'none'; form-action 'none'"
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader(__package__, "."), autoescape=True, **options)
    environment.filters["visible"] = visible
    template, target = environment.get_template("template.html.j2"), run_data.folder / "report.html"
    text = template.render(build_page(run_data), pluralize=pluralize, style=style, policy=policy)
    safe_write.write(target, text.encode())
    return target


def build_page(run_data: RunData) -> dict[str, Any]:
    """Return everything that the template shows; figures have a name, a caption and an image."""
    answers = [visible(sentence, 600) for sentence in answer_sentences(run_data.rows, run_data.sweep, run_data.folder)]
    unreadable = unreadable_lines(run_data.rows, run_data.folder, run_data.baselines)
    return {
        "title": visible(run_data.sweep.name),
        "answers": answers or ["No episode of a model is scored."],
        "problems": [*(visible(line, 400) for line in unreadable), *list_problems(run_data)],
        "tables": report_tables(run_data),
        "figures": [(name, CAPTIONS.get(name, name), image) for name, image in figure_images(run_data).items()],
        "facts": list_facts(run_data),
    }


def list_facts(run_data: RunData) -> dict[str, str]:
    """Return what was run, on which data, with which versions: name of each fact -> its text."""
    sweep, rows = run_data.sweep, run_data.rows
    planned, finished = int(rows["planned"].sum()), int(rows["finished"].sum())
    decoding = ((LABELS[name], describe_decoding(sweep.sampling_for(name))) for name in sweep.protocols)
    facts = {
        "Played": f"{finished:,} of {pluralize(planned, 'planned episode')}, {pluralize(rows.height, 'cell')}",
        "Data": _data(run_data),
        "Decoding": "; ".join(f"{label} {text} a reply" for label, text in decoding),
        "Prompt text": ", ".join(dict.fromkeys(VERSIONS[protocol] for protocol in sweep.protocols)),
        "Judge": _judge(run_data),
        "Intervals": describe_clusters(run_data),
        "Seed": str(sweep.seed),
        "Program": _program(last_status(run_data.folder)),
    }
    return {name: text for name, text in facts.items() if text}


def list_problems(run_data: RunData) -> list[str]:
    """Return what is unfinished, failed or in doubt, one sentence each; unfinished cells come first."""
    is_running = lock.holder(run_data.folder) is not None
    running = ["the sweep is still running: this page is a snapshot"] if is_running else []
    return [*running, *_gaps(run_data), *(visible(note, 400) for note in run_data.notes)]


def _data(run_data: RunData) -> str:
    foreign, protocols = foreign_scenarios(run_data), run_data.sweep.protocols
    subset = {name for protocol in protocols for name in subset_scenarios(run_data, protocol)}
    samples = run_data.rows.group_by("scenario").agg(pl.col("planned").max())["planned"].sum()
    kinds = list(dict.fromkeys(foreign.values())) or ["ids and numbers are those of the published benchmark"]
    filtered = "the paper's filter" if run_data.sweep.selection_for(protocols[0]).filtered else "unfiltered"
    text = f"{pluralize(int(samples), 'sample')}, {filtered}; {'; '.join(kinds[:2])}"
    part = f"; a subset in {_join_names(in_paper_order(subset), 7)}" if subset and not foreign else ""
    return visible(text + part, 600)


def _judge(run_data: RunData) -> str:
    if counts := judge_counts(run_data.folder, run_data.episodes.lazy()):
        return _join_names([count.sentence(judge) for judge, count in counts.items()], 3)
    if "oeg" in set(run_data.rows["protocol"]):
        return "open-ended answers are not judged yet"
    return turn_judge_key(run_data.sweep.turn_judge) if run_data.sweep.turn_judge else ""


def _program(status: dict[str, Any]) -> str:
    packages, named = status.get("packages"), ("proactive-sweep", "vllm", "transformers", "ray")
    versions = [f"{name} {packages[name]}" for name in named if name in packages] if isinstance(packages, dict) else []
    commit = [f"commit {str(status['commit'])[:12]}"] if status.get("commit") else []
    return visible(", ".join([*versions, *commit]) or "not recorded yet")


def _gaps(run_data: RunData) -> Iterator[str]:
    """Yield what is not played, what a limit cut short, and what has no answer, with the commonest causes."""
    rows = run_data.rows
    unfinished = rows.filter(pl.col("finished") < pl.col("planned"))
    if pending := int((unfinished["planned"] - unfinished["finished"]).sum()):
        yield f"{pluralize(pending, 'episode')} not played yet, in {_join_names(unfinished['cell'].to_list())}"
    for ending, reason in CUT_SHORT_REASONS.items():
        if count := int(rows[ending].sum()):
            cells = pluralize(rows.filter(pl.col(ending) > 0).height, "cell")
            yield f"{pluralize(count, 'episode')} in {cells} {reason}, counted as not right; cells.csv has bounds of acc"
    if total := int(rows["errors"].sum()):
        kinds = ", ".join(f"{n:,} {name}" for name in ERRORS if (n := int(rows[name].sum())))
        yield f"without an answer, left out of all measures: {pluralize(total, 'episode')} ({kinds})"
    causes = run_data.episodes.filter(pl.col("error").is_not_null()).group_by("error").len().sort("len", "error")
    for cause, count in causes.reverse().head(3).iter_rows() if total else ():
        yield f"{pluralize(count, 'time')}: {visible(cause, 240)}"


def _join_names(names: list[str], most: int = 4) -> str:
    """Return the first names, and the number of the others."""
    return list_first([visible(name) for name in names], most)
