"""Export to the logs of Inspect (``.eval``): one log per model, condition and protocol, with a sample per episode.

A log is a zip of JSON members (log schema 2). Members hold every field that Inspect itself writes, because its viewer reads
them without a check. Every n-th episode has its pictures as attachments, the others only name theirs. No picture is a link, so a
viewer sends no request to other hosts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import md5, sha256
from math import isfinite
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import polars as pl

from actors.playing.prompts import question_message, tool_messages
from envs.tool_calls import functions, offered_calls
from envs.types import ERRORS, Ending, View
from orchestrator.film_strip import ReplayedTurn, Thumbnails, picture_folder, replay_episode, rows_by_key
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import BITS
from orchestrator.report.tables.parts import Row
from orchestrator.storage import software
from orchestrator.storage.progress_log import playing_times
from orchestrator.storage.status import read_status
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec, Protocol

SCHEMA = 2
PLAN: dict[str, Any] = {"name": "plan", "steps": [], "config": {}}
PICTURED, PICTURE_BYTES = 300, 8_000_000
"""Most episodes of a log with attached pictures, and most bytes of these pictures."""
CHUNK = 2_000
"""Number of episodes whose turns are in memory at once."""
LONGEST_SUMMARY = 500
"""Most characters of a text in the list of samples; the sample itself has the full text."""
UNKNOWN = datetime.fromtimestamp(0, UTC)
"""The time of a run that has not stored when it was played: a log needs one."""
Json = dict[str, Any]


def token_usage(prompt: int, reply: int) -> dict[str, int]:
    """Return the tokens of an episode, or of several, under the names of Inspect."""
    return {"input_tokens": prompt, "output_tokens": reply, "total_tokens": prompt + reply}


def write(run_data: RunData, folder: Path) -> None:
    """Write ``TIME_proactivebench-CONDITION_ID.eval`` for every model, condition and protocol with a stored episode."""
    times = playing_times(run_data.folder) or (UNKNOWN, UNKNOWN)
    models = {model.name: model for model in run_data.sweep.models}
    groups = run_data.episodes.select("model", "condition", "protocol").unique().sort("model", "condition", "protocol")
    for model, condition, protocol in groups.iter_rows():
        if model in models:
            _Log(run_data, models[model], condition, Protocol(protocol), times).write(folder)


class _Log:
    """The log of one model, condition and protocol."""

    def __init__(
        self, run_data: RunData, model: ModelSpec, condition: str, protocol: Protocol, times: tuple[datetime, datetime]
    ) -> None:
        self.run_data, self.model, self.protocol = run_data, model, protocol
        self.started, self.time = (moment.isoformat() for moment in times)
        self.condition = run_data.conditions.get(condition, Condition(name=condition))
        columns = {"model": model.name, "condition": condition, "protocol": protocol.value}
        self.episodes = run_data.episodes.filter(**columns).sort("key")
        self.cells = run_data.rows.filter(**columns).sort("cell")
        self.verdicts = {row["key"]: row for row in run_data.verdicts.iter_rows(named=True)}
        self.task = "proactivebench-" + condition + ("" if protocol is Protocol.MCQA else f"-{protocol}")
        self.thumbnails = Thumbnails(picture_folder(run_data), most=PICTURED * 100, most_bytes=PICTURE_BYTES)
        self.pictured = set(self.episodes["key"].gather_every(-(-self.episodes.height // PICTURED)))
        self.id = sha256("\n".join([self.task, model.name, *self.episodes["key"]]).encode()).hexdigest()[:22]

    def write(self, folder: Path) -> None:
        """Write the zip; equal runs give equal bytes."""
        time, task = re.sub("[:+]", "-", self.time), re.sub("[^A-Za-z0-9.-]", "-", self.task)
        summaries: list[Json] = []
        with ZipFile(folder / f"{time}_{task}_{self.id}.eval", "w", ZIP_DEFLATED) as log:
            _add_member(log, "_journal/start.json", {"version": SCHEMA, "eval": self._spec(), "plan": PLAN})
            for chunk in self.episodes.iter_slices(CHUNK):
                turns = rows_by_key(self.run_data.turns, chunk["key"])
                for row in chunk.iter_rows(named=True):
                    sample = self._sample(row, turns.get(row["key"], []))
                    _add_member(log, f"samples/{sample['id']}_epoch_1.json", sample)
                    summaries.append(_summary(sample))
            _add_member(log, "summaries.json", summaries)
            _add_member(log, "header.json", self._header())

    def _header(self) -> Json:
        usage = token_usage(*(int(self.episodes[name].sum()) for name in ("prompt_tokens", "reply_tokens")))
        is_complete = self.episodes.height == int(self.cells["planned"].sum())
        return {
            "version": SCHEMA,
            "status": "success" if is_complete else "cancelled",
            "eval": self._spec(),
            "metadata": self._spec()["metadata"],
            "plan": PLAN,
            "results": self._results(),
            "stats": {"started_at": self.started, "completed_at": self.time, "model_usage": {self.model.name: usage}},
        }

    def _spec(self) -> Json:
        sweep = self.run_data.sweep
        decoding = sweep.sampling_for(self.protocol).model_dump(exclude_none=True)
        names = ("max_tokens", "temperature", "top_p", "top_k")
        return {
            "eval_id": self.id, "run_id": self.id, "task_id": self.id, "created": self.time, "task": self.task,
            "task_version": 0, "task_attribs": {}, "task_args": {}, "model_args": {},
            "dataset": {
                "name": "ProactiveBench", "location": sweep.data if "://" in sweep.data else Path(sweep.data).name,
                "samples": self.episodes.height, "shuffled": False,
            },
            "model": self.model.name, "config": {"epochs": 1},
            "model_generate_config": {name: decoding[name] for name in names if name in decoding},
            "packages": {"proactive-sweep": software.version(), **read_status(self.run_data.folder).get("packages", {})},
            "metadata": {
                "source": self.model.source, "revision": self.model.revision, "backend": self.model.backend, "seed": sweep.seed,
                "condition": self.condition.model_dump(mode="json"), "sampling": decoding, "evaluated_by": "",
                "packages_of_scenarios": sweep.packages,
            },
        }  # fmt: skip

    def _results(self) -> Json:
        """Return the result columns of the protocol as scores; percentages become shares from 0 to 1."""
        measures = BITS if self.protocol is Protocol.OEG else ("acc", "ps")
        names = [name for name in measures if name in self.cells.columns and self.cells[name].count()]
        scored = int(self.cells["finished" if self.protocol is Protocol.OEG else "scored"].sum())
        return {
            "total_samples": int(self.cells["planned"].sum()),
            "completed_samples": self.episodes.height,
            "scores": [
                {
                    "name": name, "scorer": name, "params": {}, "scored_samples": scored,
                    "unscored_samples": self.episodes.height - scored, "metrics": self._metrics(name),
                }
                for name in names
            ],
        }  # fmt: skip

    def _metrics(self, name: str) -> Json:
        """Return the unweighted mean of the cells (the paper's average), then each cell's value with its interval."""
        unit = 1 if name == "ps" else 100
        cells = self.cells.filter(pl.col(name).is_not_null())
        metrics = {"mean": _metric("mean", sum(cells[name]) / cells.height / unit)}
        for row in cells.iter_rows(named=True):
            bounds = {side: row.get(f"{name}_{side}") for side in ("low", "high")}
            interval = {side: bound / unit for side, bound in bounds.items() if bound is not None}
            metrics[row["scenario"]] = _metric(row["scenario"], row[name] / unit, interval)
        return metrics

    # -- samples ------------------------------------------------------------------------------------------------------
    def _sample(self, row: Row, turns: Sequence[Row]) -> Json:
        sample = self.run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
        questions, _ = replay_episode(self.run_data, row, turns)
        attachments = self._attachments(row, turns)
        messages = [
            message for turn in turns for message in self._messages(row, turn, questions.get(turn["turn"]), attachments)
        ]
        usage = token_usage(row["prompt_tokens"], row["reply_tokens"])
        error = row["error"] or row["ending"] if row["ending"] in ERRORS else None
        return {
            "id": re.sub(r"[^A-Za-z0-9._-]", "-", f"{row['scenario']}-{row['sample_id']:04d}"),
            "epoch": 1,
            "input": sample.prompt if sample else f"{row['scenario']} sample {row['sample_id']}",
            **({"choices": [*sample.options, *sample.categories]} if sample and self.protocol is Protocol.MCQA else {}),
            "target": sample.answer if sample else "",
            "messages": messages,
            "output": _output(self.model.name, messages, usage),
            **({} if error else {"scores": self._scores(row, turns)}),
            "metadata": {name: row[name] for name in ("key", "scenario", "sample_id", "seed", "ending")},
            "store": {},
            "events": [],
            "attachments": {name: uri for name, uri in attachments.values()},
            "model_usage": {self.model.name: usage},
            "started_at": self.time,
            "completed_at": self.time,
            "total_time": row["seconds"] if isfinite(row["seconds"]) else None,
            **({"error": {"message": error, "traceback": "", "traceback_ansi": ""}} if error else {}),
        }

    def _attachments(self, row: Row, turns: Sequence[Row]) -> dict[str, tuple[str, str]]:
        """Return picture -> (name of its attachment, data URI); empty for an episode that only names its pictures."""
        if row["key"] not in self.pictured:
            return {}
        numbers = {turn["image"]: self.thumbnails.number(turn["image"]) for turn in turns}
        uris = {image: self.thumbnails.uris[n] for image, n in numbers.items() if isinstance(n, int)}
        return {image: (md5(uri.encode(), usedforsecurity=False).hexdigest(), uri) for image, uri in uris.items()}

    def _messages(
        self, row: Row, turn: Row, replayed: ReplayedTurn | None, attachments: Mapping[str, tuple[str, str]]
    ) -> Iterator[Json]:
        """Yield the question, with its picture attached or named, and the reply."""
        message_id = f"{row['key']}/{turn['turn']}"
        text = f"[picture: {turn['image']}]"
        if replayed is not None:
            text = f"{text}\n\n{self._question(row, replayed.view)}"
        content: str | list[Json] = text
        if turn["image"] in attachments:
            picture = {"type": "image", "image": f"attachment://{attachments[turn['image']][0]}", "detail": "auto"}
            content = [picture, {"type": "text", "text": text}]
        parsed = {name: turn[name] for name in ("frame", "image", "option", "category", "action", "move")}
        parsed |= {name: turn[name] for name in ("read_as", "judged") if turn[name] is not None}
        question = {"id": f"{message_id}/question", "role": "user", "source": "input"}
        yield {**question, "content": content, "metadata": parsed}
        yield {
            "id": f"{message_id}/reply", "role": "assistant", "source": "generate", "content": turn["reply"] or "",
            "model": self.model.name,
        }  # fmt: skip

    def _question(self, row: Row, view: View) -> str:
        if self.protocol is Protocol.TOOLS:
            tools = functions(offered_calls(row["scenario"], view))
            return tool_messages(view, tools, self.condition, self.model.calls_natively)[-1].text
        if self.protocol.is_open_ended:
            return view.prompt
        return question_message(view, template=self.condition.template).text

    def _scores(self, row: Row, turns: Sequence[Row]) -> Json:
        last_reply = turns[-1]["reply"] if turns else ""
        if self.protocol is Protocol.OEG:
            return _judged_scores(self.verdicts.get(row["key"], {}), last_reply)
        explanation = f"The episode ended as {row['ending']!r} after {row['turns']} turns."
        score = {"answer": last_reply, "explanation": explanation}
        return {
            "acc": {"value": "C" if row["ending"] == Ending.CORRECT else "I", **score},
            "ps": {"value": row["turns"] - 1, **score},
        }


def _judged_scores(verdict: Row, last_reply: str) -> Json:
    """Return the judge's bits of an open-ended answer; empty if it gave no verdict."""
    return {
        bit: {"value": "C" if verdict[bit] else "I", "answer": last_reply, "explanation": verdict["text"]}
        for bit in BITS
        if verdict.get(bit) is not None
    }


def _summary(sample: Json) -> Json:
    """Return the sample as the viewer lists it: without messages, long texts cut."""
    names = ("id", "epoch", "choices", "metadata", "model_usage", "started_at", "completed_at", "total_time")
    scores = {
        name: {key: value[:LONGEST_SUMMARY] if isinstance(value, str) else value for key, value in score.items()}
        for name, score in sample.get("scores", {}).items()
    }
    return {
        **{name: sample[name] for name in names if name in sample},
        "input": sample["input"][:LONGEST_SUMMARY],
        "target": sample["target"][:LONGEST_SUMMARY],
        **({"scores": scores} if scores else {}),
        **({"error": sample["error"]["message"][:LONGEST_SUMMARY]} if "error" in sample else {}),
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def _output(model: str, messages: Sequence[Json], usage: Json) -> Json:
    replies = [message for message in messages if message["role"] == "assistant"][-1:]
    choices = [{"message": reply, "stop_reason": "stop"} for reply in replies]
    completion = replies[-1]["content"] if replies else ""
    return {"model": model, "choices": choices, "usage": usage, "completion": completion}


def _metric(name: str, value: float, interval: Json | None = None) -> Json:
    return {"name": name, "value": value, "params": {}, **({"metadata": interval} if interval else {})}


def _add_member(log: ZipFile, name: str, content: object) -> None:
    member = ZipInfo(name)  # without a time, so that equal runs give equal bytes
    member.compress_type = ZIP_DEFLATED
    log.writestr(member, json.dumps(content, allow_nan=False))
