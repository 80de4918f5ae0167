"""Sends transcripts to MLflow as traces, one span a turn.

An episode that has its trace already gets no second one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.tracking.mlflow_client import MARK, RUNS_PER_PAGE, MlflowRun
from orchestrator.tracking.transcripts import Transcript, TurnText, quoted

KEY = "proactive_sweep.episode"
"""Tag of a trace: the episode's key."""


def send_transcripts(run: MlflowRun, transcripts: Iterable[Transcript], ended: int) -> int:
    """Send those that are not there; how many were. ``ended``: nanoseconds since 1970 at which the sweep was over.

    The store keeps an episode's seconds and not its turns': they are laid out evenly, up to the sweep's end.
    """
    there, sent = _keys_with_trace(run), 0
    with _tracking_uri(run.uri):
        for transcript in transcripts:
            if transcript.key not in there:
                _send(run, transcript, ended)
                sent += 1
    return sent


@contextmanager
def _tracking_uri(uri: str) -> Iterator[None]:
    """MLflow's traces go to the address of the process, which MLflow keeps in its environment: set here, and put back."""
    import mlflow

    names = ("MLFLOW_TRACKING_URI", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING")
    found = {name: os.environ[name] for name in names if name in os.environ}
    os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(found)


def _keys_with_trace(run: MlflowRun) -> set[str]:
    """Keys of the episodes that have a trace under this parent run."""
    found: set[str] = set()
    token: str | None = None
    while True:
        page = run.client.search_traces(
            locations=[run.experiment], filter_string=f"tags.`{MARK}` = '{run.mark}'", max_results=RUNS_PER_PAGE,
            page_token=token, include_spans=False,
        )  # fmt: skip
        found |= {trace.info.tags.get(KEY, "") for trace in page}
        token = page.token
        if not token:
            return found


def _send(run: MlflowRun, transcript: Transcript, ended: int) -> None:
    length = max(int(transcript.seconds * 1e9), 1_000_000)
    began, step = ended - length, length // max(len(transcript.turns), 1)
    whole = _conversation(transcript)
    trace = run.client.start_trace(
        transcript.name, span_type="AGENT", inputs={"messages": whole[:-1]}, experiment_id=run.experiment,
        run_id=run.parent, start_time_ns=began, tags={**transcript.tags, MARK: run.mark, KEY: transcript.key},
    )  # fmt: skip
    for number, turn in enumerate(transcript.turns):
        span = run.client.start_span(
            turn.name, trace.trace_id, trace.span_id, span_type="CHAT_MODEL", inputs={"messages": [_input(turn)]},
            attributes=dict(turn.facts), start_time_ns=began + number * step,
        )  # fmt: skip
        run.client.end_span(
            trace.trace_id, span.span_id, outputs=_output(turn), end_time_ns=began + (number + 1) * step
        )
    run.client.end_trace(
        trace.trace_id, outputs={"choices": [{"message": whole[-1]}]}, end_time_ns=ended,
        status="OK" if transcript.answered else "ERROR",
    )  # fmt: skip


def _conversation(transcript: Transcript) -> list[dict[str, Any]]:
    """The whole episode as messages: shown and asked, replied, read; how it ended comes last."""
    parts: list[dict[str, Any]] = []
    for turn in transcript.turns:
        parts += [
            _input(turn),
            {"role": "assistant", "content": turn.reply},
            {"role": "system", "content": turn.verdict},
        ]
    return [*parts, {"role": "assistant", "content": f"Ended: {transcript.ending}"}]


def _input(turn: TurnText) -> dict[str, Any]:
    if not turn.picture.startswith("data:"):
        return {"role": "user", "content": f"{turn.question}\n\n(no picture: {quoted(turn.picture)})"}
    picture = {"type": "image_url", "image_url": {"url": turn.picture}}
    return {"role": "user", "content": [picture, {"type": "text", "text": turn.question}]}


def _output(turn: TurnText) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": turn.reply}}], "verdict": turn.verdict}
