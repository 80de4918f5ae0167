"""Sends a sample of episodes to MLflow as traces, with a span per turn: picture, question, reply and verdict.

The sample is drawn by seed over scenarios and endings, so equal folders have equal traces, and an episode never gets a second
one. Texts of models and data are fenced, so that MLflow's page interprets no Markdown in them.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl

from actors.text.printable import spell_invisible
from envs.plural import pluralize
from orchestrator.report.html.episode_view import rows_by_key, view_episode
from orchestrator.report.html.text import visible
from orchestrator.report.html.thumbnails import Thumbnails, picture_folder
from orchestrator.report.measures.endings import endings
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import BITS
from orchestrator.tracking.client import all_pages
from orchestrator.tracking.mlflow_run import MARK, MlflowRun

KEY = "proactive_sweep.episode"
"""Tag of a trace: the episode's key."""
MAX_TRANSCRIPTS = 60
MAX_PICTURES = 600
"""Pictures in all transcripts together."""
ANSWERED = ("correct", "wrong", "limit", "answered")
"""Endings of episodes without an error."""


class TurnText(NamedTuple):
    """One turn of an episode, as Markdown."""

    name: str
    question: str
    """Prompt and lettered options, fenced; or a sentence that says why they are unknown."""
    reply: str
    verdict: str
    picture: str
    """Data URI of the thumbnail, or the reason why there is none."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the question, the reply and the verdict as messages of a chat."""
        if self.picture.startswith("data:"):
            shown: dict[str, Any] = {"type": "image_url", "image_url": {"url": self.picture}}
        else:
            shown = {"type": "text", "text": f"(no picture: {code_span(self.picture)})"}
        question = {"role": "user", "content": [shown, {"type": "text", "text": self.question}]}
        texts = (("assistant", self.reply), ("system", self.verdict))
        return [question, *({"role": role, "content": text} for role, text in texts)]


class Transcript(NamedTuple):
    """One episode."""

    key: str
    name: str
    tags: dict[str, str]
    turns: tuple[TurnText, ...]
    ending: str
    seconds: float
    tokens: dict[str, int]
    assessments: dict[str, bool | str]


def send_traces(run: MlflowRun, run_data: RunData, data: Path | None) -> None:
    """Send the transcripts that have no trace yet. They end with the sweep; the store has no times of turns, which share it."""
    import mlflow

    query = {"locations": [run.experiment], "filter_string": f"tags.`{MARK}` = '{run.mark}'", "include_spans": False}
    sent_keys = {trace.info.tags.get(KEY, "") for trace in all_pages(run.client.search_traces, **query)}
    ended, before = (run_data.folder / "results.parquet").stat().st_mtime_ns, dict(os.environ)
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    mlflow.set_tracking_uri(run.uri)  # for the whole process, also in its environment
    try:
        for transcript in transcripts(run_data, data):
            if transcript.key not in sent_keys:
                _send(run, transcript, ended)
    finally:
        mlflow.set_tracking_uri(None)
        os.environ.clear()
        os.environ.update(before)


def _send(run: MlflowRun, transcript: Transcript, ended: int) -> None:
    import mlflow

    duration = max(int(transcript.seconds * 1e9), 1_000_000)
    began, step = ended - duration, duration // max(len(transcript.turns), 1)
    messages = [message for turn in transcript.turns for message in turn.messages]
    trace = run.client.start_trace(
        transcript.name, span_type="AGENT", inputs={"messages": messages}, experiment_id=run.experiment,
        run_id=run.parent, start_time_ns=began, tags={**transcript.tags, MARK: run.mark, KEY: transcript.key},
    )  # fmt: skip
    trace.set_attribute("mlflow.chat.tokenUsage", transcript.tokens)
    for number, turn in enumerate(transcript.turns):
        question, reply, _ = turn.messages
        span = run.client.start_span(
            turn.name, trace.trace_id, trace.span_id, span_type="CHAT_MODEL", inputs={"messages": [question]},
            start_time_ns=began + number * step,
        )  # fmt: skip
        outputs = {"choices": [{"message": reply}], "verdict": turn.verdict}
        end = began + (number + 1) * step
        run.client.end_span(trace.trace_id, span.span_id, outputs=outputs, end_time_ns=end)
    ending = {"role": "assistant", "content": f"Ended: {transcript.ending}"}
    status = "OK" if transcript.tags["ending"] in ANSWERED else "ERROR"
    outputs = {"choices": [{"message": ending}]}
    run.client.end_trace(trace.trace_id, outputs=outputs, end_time_ns=ended, status=status)
    for name, value in transcript.assessments.items():
        mlflow.log_feedback(trace_id=trace.trace_id, name=name, value=value)


def transcripts(
    run_data: RunData, data: Path | None = None, limit: int = MAX_TRANSCRIPTS, seed: int = 0
) -> Iterator[Transcript]:
    """Yield at most ``limit`` transcripts, of baselines only if there is no model.

    Without the data folder they have no pictures and no questions.
    """
    thumbnails = Thumbnails(picture_folder(run_data, data), MAX_PICTURES)
    kinds = endings(run_data)
    baselines = [model.name for model in run_data.sweep.models if model.backend == "builtin"]
    of_models = kinds.filter(~pl.col("model").is_in(baselines))
    keys = sample_keys(of_models if of_models.height else kinds, limit, seed)
    rows = {row["key"]: row for row in run_data.episodes.join(kinds.select("key", "kind"), on="key").to_dicts()}
    turns, verdicts = rows_by_key(run_data.turns, keys), rows_by_key(run_data.verdicts.lazy(), keys)
    for key in keys:
        view = view_episode(run_data, thumbnails, rows[key], turns.get(key, []), verdicts.get(key, []))
        yield _transcript(view, rows[key], thumbnails.uris)


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
    return _fence(spell_invisible(text, keep="\n"), "text\n", "\n", 3)


def code_span(text: str) -> str:
    """Return one line of text as a span of code that nothing in it can close."""
    return _fence(visible(text), " ", " ", 1)


def _fence(text: str, before: str, after: str, least: int) -> str:
    ticks = "`" * max(least, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{before}{text}{after}{ticks}"


def _transcript(view: Mapping[str, Any], row: Mapping[str, Any], uris: list[str]) -> Transcript:
    tags = {name: visible(view[name]) for name in ("model", "scenario", "condition", "protocol", "ending")}
    title = f"{view['scenario']} {view['sample']} · {view['model']} · {view['condition']} · {view['kind']}"
    ending = [f"{view['kind']} after {pluralize(view['played'], 'turn')}."]
    if "answer" in view:
        ending.append(f"The right answer: {code_span(view['answer'].rstrip('.'))}.")
    if "error" in view:
        ending.append(code_span(view["error"][0]))
    for verdict in view.get("judged", ()):
        bits = ", ".join(f"{bit} {'yes' if verdict[bit] else 'no'}" for bit in BITS if bit in verdict)
        reason = bits or code_span(verdict.get("reason", ["no verdict"])[0])
        ending.append(f"Judge {visible(verdict['judge'][0])}: {reason}.")
    read, written = row["prompt_tokens"] or 0, row["reply_tokens"] or 0
    correct = {} if row["correct"] is None else {"correct": bool(row["correct"])}
    return Transcript(
        view["key"], visible(title), tags, tuple(_turn_text(turn, view, uris) for turn in view["turns"]),
        " ".join(ending), row["seconds"] or 0.0,
        {"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
        {"asked": bool(row["suggestions"]), **correct, "ending": tags["ending"]},
    )  # fmt: skip


def _turn_text(turn: Mapping[str, Any], view: Mapping[str, Any], uris: list[str]) -> TurnText:
    picture, action = turn["picture"], turn["action"]
    cut = "" if "length" not in turn else f"\n… ({turn['length']:,} characters)"
    question = f"({view.get('why', 'the question is unknown')})"
    if "prompt" in turn:
        options = (*turn["options"], *turn["categories"])
        lettered = [f"{chr(65 + number)}. {text}" for number, text in enumerate(options)]
        question = code_block("\n".join([turn["prompt"], *lettered]))
    verdict = "Open-ended: a judge decides."
    if action is not None:
        verdict = f"Read as {visible(action)}: suggestion side {turn['option']}, category side {turn['category']}."
    name = f"turn {turn['turn'] + 1} · {visible(action or 'free answer')}"
    source = uris[picture] if isinstance(picture, int) else picture
    return TurnText(name, question, code_block(turn["reply"] + cut), verdict, source)
