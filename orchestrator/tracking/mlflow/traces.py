"""Sends transcripts to MLflow as traces, with one span per turn. An episode never gets a second trace."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.tracking.mlflow.client import all_pages
from orchestrator.tracking.mlflow.run import MlflowRun
from orchestrator.tracking.mlflow.run_tree import MARK
from orchestrator.tracking.transcripts import Transcript, TurnText, code_span

KEY = "proactive_sweep.episode"
"""Tag of a trace: the episode's key."""


def send_transcripts(run: MlflowRun, transcripts: Iterable[Transcript], ended: int) -> None:
    """Send the transcripts that have no trace yet; ``ended`` is the end of the sweep in nanoseconds since 1970.

    The store has the duration of an episode but not of its turns: each turn gets an equal share, and the last one ends with
    the sweep.
    """
    query = {"locations": [run.experiment], "filter_string": f"tags.`{MARK}` = '{run.mark}'", "include_spans": False}
    sent_keys = {trace.info.tags.get(KEY, "") for trace in all_pages(run.client.search_traces, **query)}
    with _tracking_uri(run.uri):
        for transcript in transcripts:
            if transcript.key not in sent_keys:
                _send(run, transcript, ended)


@contextmanager
def _tracking_uri(uri: str) -> Iterator[None]:
    """Set the process-wide address to which MLflow sends traces, and restore the environment afterwards."""
    import mlflow

    names = ("MLFLOW_TRACKING_URI", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING")
    previous = {name: os.environ[name] for name in names if name in os.environ}
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(previous)


def _send(run: MlflowRun, transcript: Transcript, ended: int) -> None:
    import mlflow

    duration = max(int(transcript.seconds * 1e9), 1_000_000)
    began, step = ended - duration, duration // max(len(transcript.turns), 1)
    messages = _conversation(transcript)
    trace = run.client.start_trace(
        transcript.name, span_type="AGENT", inputs={"messages": messages[:-1]}, experiment_id=run.experiment,
        run_id=run.parent, start_time_ns=began, tags={**transcript.tags, MARK: run.mark, KEY: transcript.key},
    )  # fmt: skip
    usage = dict(zip(("input_tokens", "output_tokens"), transcript.tokens, strict=True))
    trace.set_attribute("mlflow.chat.tokenUsage", {**usage, "total_tokens": sum(usage.values())})
    for number, turn in enumerate(transcript.turns):
        span = run.client.start_span(
            turn.name, trace.trace_id, trace.span_id, span_type="CHAT_MODEL", inputs={"messages": [_input(turn)]},
            attributes=dict(turn.attributes), start_time_ns=began + number * step,
        )  # fmt: skip
        end = began + (number + 1) * step
        run.client.end_span(trace.trace_id, span.span_id, outputs=_output(turn), end_time_ns=end)
    run.client.end_trace(
        trace.trace_id, outputs={"choices": [{"message": messages[-1]}]}, end_time_ns=ended,
        status="OK" if transcript.answered else "ERROR",
    )  # fmt: skip
    for name, value in (("asked", transcript.asked), ("ending", transcript.tags["ending"])):
        mlflow.log_feedback(trace_id=trace.trace_id, name=name, value=value)


def _conversation(transcript: Transcript) -> list[dict[str, Any]]:
    """Return the episode as messages: question, reply and verdict of each turn, and the ending."""
    messages: list[dict[str, Any]] = []
    for turn in transcript.turns:
        messages += [
            _input(turn),
            {"role": "assistant", "content": turn.reply},
            {"role": "system", "content": turn.verdict},
        ]
    return [*messages, {"role": "assistant", "content": f"Ended: {transcript.ending}"}]


def _input(turn: TurnText) -> dict[str, Any]:
    if not turn.picture.startswith("data:"):
        return {"role": "user", "content": f"{turn.question}\n\n(no picture: {code_span(turn.picture)})"}
    picture = {"type": "image_url", "image_url": {"url": turn.picture}}
    return {"role": "user", "content": [picture, {"type": "text", "text": turn.question}]}


def _output(turn: TurnText) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": turn.reply}}], "verdict": turn.verdict}
