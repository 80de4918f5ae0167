"""Sends a sample of episodes to MLflow as traces, with a span per turn: picture, question, reply and verdict.

The sample is drawn by seed over scenarios and endings, so equal folders have equal traces, and an episode never gets a second
one. Texts of models and data are fenced, so that MLflow's page interprets no Markdown in them.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl

from actors.text.printable import spell_invisible
from envs.answers import letter
from envs.plural import pluralize
from envs.types import CUT_SHORT, ERRORS
from orchestrator.film_strip import Thumbnails, picture_folder, rows_by_key, view_episode
from orchestrator.report.html.text import visible
from orchestrator.report.measures.endings import endings
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import BITS
from orchestrator.storage.progress_log import playing_times
from orchestrator.tracking.client import all_pages
from orchestrator.tracking.mlflow_run import MARK, MlflowRun
from proactive_bridges.inspect_log import token_usage

KEY = "proactive_sweep.episode"
"""Tag of a trace: the episode's key."""
MAX_PICTURES = 600
"""Pictures in all transcripts together."""


class Turn(NamedTuple):
    """One turn of an episode, as the spans of MLflow's page show it; texts are Markdown."""

    name: str
    question: dict[str, Any]
    """Picture (or why there is none), prompt and lettered options, as a message of a chat."""
    reply: str
    verdict: str


class Transcript(NamedTuple):
    """One episode."""

    key: str
    name: str
    tags: dict[str, str]
    turns: tuple[Turn, ...]
    ending: str
    row: Mapping[str, Any]


def send_traces(run: MlflowRun, run_data: RunData, data: Path | None) -> None:
    """Send the transcripts that have no trace yet. They end with the sweep; the store has no times of turns, which share it."""
    import mlflow

    query = {"locations": [run.experiment], "filter_string": f"tags.`{MARK}` = '{run.mark}'", "include_spans": False}
    sent_keys = {trace.info.tags.get(KEY, "") for trace in all_pages(run.client.search_traces, **query)}
    times = playing_times(run_data.folder)  # without them, the results are written when a sweep ends
    ended = int(times[1].timestamp() * 1e9) if times else (run_data.folder / "results.parquet").stat().st_mtime_ns
    mlflow.set_tracking_uri(run.uri)  # traces go to the address of the process
    try:
        for transcript in transcripts(run_data, data):
            if transcript.key not in sent_keys:
                _send(run, transcript, ended)
    finally:
        mlflow.set_tracking_uri(None)


def _send(run: MlflowRun, transcript: Transcript, ended: int) -> None:
    import mlflow

    row, tags = transcript.row, {**transcript.tags, MARK: run.mark, KEY: transcript.key}
    duration = max(int(row["seconds"] * 1e9) if isfinite(row["seconds"]) else 0, 1_000_000)
    began, step = ended - duration, duration // max(len(transcript.turns), 1)
    spoken = list[dict[str, Any]]()
    for turn in transcript.turns:
        reply, verdict = {"role": "assistant", "content": turn.reply}, {"role": "system", "content": turn.verdict}
        spoken += [turn.question, reply, verdict]
    trace = run.client.start_trace(
        transcript.name, span_type="AGENT", inputs={"messages": spoken},
        experiment_id=run.experiment, run_id=run.parent, start_time_ns=began, tags=tags,
    )  # fmt: skip
    trace.set_attribute("mlflow.chat.tokenUsage", token_usage(row["prompt_tokens"] or 0, row["reply_tokens"] or 0))
    for number, turn in enumerate(transcript.turns):
        start, end = began + number * step, began + (number + 1) * step
        span = run.client.start_span(
            turn.name, trace.trace_id, trace.span_id, span_type="CHAT_MODEL", inputs={"messages": [turn.question]},
            start_time_ns=start,
        )  # fmt: skip
        outputs = _choice(turn.reply) | {"verdict": turn.verdict}
        run.client.end_span(trace.trace_id, span.span_id, outputs=outputs, end_time_ns=end)
    status = "ERROR" if tags["ending"] in (*ERRORS, *CUT_SHORT) else "OK"
    ending = _choice(f"Ended: {transcript.ending}")
    run.client.end_trace(trace.trace_id, outputs=ending, end_time_ns=ended, status=status)
    assessments = {"asked": bool(row["suggestions"]), "correct": row["correct"], "ending": tags["ending"]}
    for name, value in assessments.items():
        if value is not None:
            mlflow.log_feedback(trace_id=trace.trace_id, name=name, value=value)


def _choice(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def transcripts(run_data: RunData, data: Path | None = None, limit: int = 60, seed: int = 0) -> Iterator[Transcript]:
    """Yield at most ``limit`` transcripts, of baselines only if there is no model.

    Without the data folder they have no pictures and no questions.
    """
    thumbnails = Thumbnails(picture_folder(run_data, data), MAX_PICTURES)
    kinds = endings(run_data)
    of_models = kinds.filter(~pl.col("model").is_in(list(run_data.baselines)))
    keys = sample_keys(of_models if of_models.height else kinds, limit, seed)
    rows = {row["key"]: row for row in run_data.episodes.join(kinds.select("key", "kind"), on="key").to_dicts()}
    turns, verdicts = rows_by_key(run_data.turns, keys), rows_by_key(run_data.verdicts.lazy(), keys)
    for key in keys:
        view = view_episode(run_data, thumbnails, rows[key], turns.get(key, []), verdicts.get(key, []))
        tags = {name: visible(view[name]) for name in ("model", "scenario", "condition", "protocol", "ending")}
        title = f"{view['scenario']} {view['sample']} · {view['model']} · {view['condition']} · {view['kind']}"
        spans = tuple(_describe_turn(turn, view, thumbnails.uris) for turn in view["turns"])
        yield Transcript(key, visible(title), tags, spans, _describe_ending(view), rows[key])


def sample_keys(kinds: pl.DataFrame, limit: int, seed: int) -> list[str]:
    """Return keys: one episode of every ending of every scenario, then a second of each, up to ``limit``."""
    queues = []
    groups = kinds.group_by("scenario", "kind").agg(pl.col("key").sort()).sort("scenario", "kind")
    for scenario, kind, keys in groups.iter_rows():
        Random(f"{seed}/{scenario}/{kind}/transcripts").shuffle(keys)
        queues.append(keys)
    return [key for keys in zip_longest(*queues) for key in keys if key is not None][:limit]


def code_block(text: str) -> str:
    """Return a block of code that nothing in the text can close; invisible characters are spelled out."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return "\n".join(["", f"{ticks}text", spell_invisible(text, keep="\n"), ticks, ""])


def _describe_ending(view: Mapping[str, Any]) -> str:
    ending = [f"{view['kind']} after {pluralize(view['played'], 'turn')}."]
    ending += [f"The right answer: {code_block(view['answer'])}"] if "answer" in view else []
    ending += [code_block(view["error"][0])] if "error" in view else []
    for verdict in view.get("judged", ()):
        bits = ", ".join(f"{bit} {'yes' if verdict[bit] else 'no'}" for bit in BITS if bit in verdict)
        reason = bits or code_block(verdict.get("reason", ["no verdict"])[0])
        ending.append(f"Judge {visible(verdict['judge'][0])}: {reason}.")
    return " ".join(ending)


def _describe_turn(turn: Mapping[str, Any], view: Mapping[str, Any], uris: list[str]) -> Turn:
    picture, action = turn["picture"], visible(turn["action"] or "free answer")
    shown: dict[str, Any] = {"type": "text", "text": f"(no picture: {code_block(str(picture))})"}
    if isinstance(picture, int):
        shown = {"type": "image_url", "image_url": {"url": uris[picture]}}
    question = f"({view.get('why', 'the question is unknown')})"
    if "prompt" in turn:
        lettered = (f"{letter(n)}. {text}" for n, text in enumerate((*turn["options"], *turn["categories"])))
        question = code_block("\n".join([turn["prompt"], *lettered]))
    verdict = f"Read as {action}: suggestion side {turn['option']}, category side {turn['category']}."
    if turn["action"] is None:
        verdict = "Open-ended: a judge decides."
    cut = "" if "length" not in turn else f"\n… ({turn['length']:,} characters)"
    message = {"role": "user", "content": [shown, {"type": "text", "text": question}]}
    return Turn(f"turn {turn['turn'] + 1} · {action}", message, code_block(turn["reply"] + cut), verdict)
