"""A run as logs of Inspect (``.eval``): one a model, condition and protocol, with every episode as a sample and its messages.

The format is Inspect's log schema 2: a zip of JSON members. Texts of others are JSON strings in it; pictures are named, never
linked, so that a viewer asks nobody for anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import polars as pl

from actors.playing.prompts import open_question, question_message
from actors.playing.tool_prompts import tool_messages
from envs.tool_calls import calls_for_view, functions
from envs.types import ERRORS, Ending, Sample, View
from orchestrator.report.html.episode_view import ReplayedTurn, replay_episode, rows_by_key
from orchestrator.report.run_data import RunData
from orchestrator.report.scores.metrics import BITS
from orchestrator.storage import software
from orchestrator.storage.run_folder import read_status
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec, Protocol

SCHEMA = 2
"""Version of Inspect's logs."""
CHUNK = 2_000
"""Episodes whose turns are held at once."""
LONGEST_SUMMARY = 500
"""Characters of a text in the list of samples; the sample itself has all."""
MEASURES = {
    Protocol.MCQA: ("acc", "ps"),
    Protocol.OEG: BITS,
    Protocol.OEG_MULTI: ("acc", "ps"),
    Protocol.TOOLS: ("acc", "ps"),
}
"""Columns of the results that a log's metrics are; shares are from 0 to 1 there."""
Row = Mapping[str, Any]
Found = dict[str, Any]


def write(run_data: RunData, into: Path, by: str = "") -> None:
    """``TIME_proactivebench-CONDITION_ID.eval`` for every model and condition with a stored episode."""
    written_at = datetime.fromtimestamp(
        int(max(path.stat().st_mtime for path in (run_data.folder / "episodes").glob("*.parquet"))), UTC
    )
    packages = read_status(run_data.folder).get("packages", {})
    models = {model.name: model for model in run_data.sweep.models}
    cells = run_data.episodes.select("model", "condition", "protocol").unique().sort("model", "condition", "protocol")
    for names in cells.iter_rows(named=True):
        if names["model"] in models:
            log = _Log(
                run_data,
                models[names["model"]],
                names["condition"],
                Protocol(names["protocol"]),
                written_at,
                packages,
                by,
            )
            log.write(into)


class _Log:
    """One log: its specification, its samples and its results."""

    def __init__(
        self, run_data: RunData, model: ModelSpec, condition: str, protocol: Protocol, written_at: datetime,
        packages: Mapping[str, str], by: str,
    ) -> None:  # fmt: skip
        self.run_data, self.model, self.protocol, self.made, self.packages, self.by = (
            run_data, model, protocol, written_at.isoformat(), packages, by,
        )  # fmt: skip
        self.condition = run_data.conditions.get(condition, Condition(name=condition))
        cell_columns = {"model": model.name, "condition": condition, "protocol": protocol.value}
        self.episodes = run_data.episodes.filter(**cell_columns).sort("key")
        self.rows = run_data.rows.filter(**cell_columns).sort("cell")
        self.verdicts = {row["key"]: row for row in run_data.verdicts.iter_rows(named=True)}
        self.task = "proactivebench-" + condition + ("" if protocol is Protocol.MCQA else f"-{protocol}")
        self.id = sha256("\n".join([self.task, model.name, *self.episodes["key"]]).encode()).hexdigest()[:22]

    def write(self, into: Path) -> None:
        """Write the log's zip; equal runs give equal bytes."""
        stamp = self.made.replace(":", "-").replace("+", "-")
        summaries: list[Found] = []
        with ZipFile(
            into / f"{stamp}_{re.sub('[^A-Za-z0-9.-]', '-', self.task)}_{self.id}.eval", "w", ZIP_DEFLATED
        ) as log:
            _put(log, "_journal/start.json", {"version": SCHEMA, "eval": self._spec(), "plan": {}})
            for sample in self._samples():
                _put(log, f"samples/{sample['id']}_epoch_1.json", sample)
                summaries.append(_summary(sample))
            _put(log, "summaries.json", summaries)
            _put(log, "header.json", self._header())

    def _header(self) -> Found:
        usage = {
            self.model.name: _usage(*(int(self.episodes[name].sum()) for name in ("prompt_tokens", "reply_tokens")))
        }
        is_complete = self.episodes.height == int(self.rows["planned"].sum())
        return {
            "version": SCHEMA,
            "status": "success" if is_complete else "cancelled",
            "eval": self._spec(),
            "plan": {},
            "results": self._results(),
            "stats": {"started_at": self.made, "completed_at": self.made, "model_usage": usage},
        }

    def _spec(self) -> Found:
        sweep = self.run_data.sweep
        sampling = sweep.open_ended.sampling if self.protocol.is_open_ended else sweep.sampling
        decoding = sampling.model_dump(exclude_none=True)
        generate_config = {
            name: decoding[name] for name in ("max_tokens", "temperature", "top_p", "top_k") if name in decoding
        }
        return {
            "eval_id": self.id, "run_id": self.id, "task_id": self.id, "created": self.made, "task": self.task,
            "dataset": {
                "name": "ProactiveBench", "location": _place(sweep.data), "samples": self.episodes.height, "shuffled": False,
            },
            "model": self.model.name, "model_generate_config": generate_config, "config": {"epochs": 1},
            "packages": {"proactive-sweep": software.version(), **self.packages},
            "metadata": {
                "source": self.model.source, "revision": self.model.revision, "backend": self.model.backend, "seed": sweep.seed,
                "condition": self.condition.model_dump(mode="json"), "sampling": decoding, "evaluated_by": self.by,
                "packages_of_scenarios": sweep.packages,
            },
        }  # fmt: skip

    def _results(self) -> Found:
        """The cells' figures as the run's tables have them; the first metric is their unweighted mean, the paper's average."""
        names = [name for name in MEASURES[self.protocol] if name in self.rows.columns and self.rows[name].count()]
        answered = int(self.rows["finished" if self.protocol is Protocol.OEG else "scored"].sum())
        return {
            "total_samples": int(self.rows["planned"].sum()),
            "completed_samples": self.episodes.height,
            "scores": [
                {
                    "name": name, "scorer": "proactivebench", "scored_samples": answered,
                    "unscored_samples": self.episodes.height - answered, "metrics": self._metrics(name),
                }
                for name in names
            ],
        }  # fmt: skip

    def _metrics(self, name: str) -> Found:
        unit = 1 if name == "ps" else 100
        cells = self.rows.filter(pl.col(name).is_not_null())
        metrics = {"mean": _metric("mean", sum(cells[name]) / cells.height / unit)}
        for row in cells.iter_rows(named=True):
            span = {
                side: row[f"{name}_{side}"] / unit for side in ("low", "high") if row.get(f"{name}_{side}") is not None
            }
            metrics[row["scenario"]] = _metric(row["scenario"], row[name] / unit, span)
        return metrics

    # -- samples ------------------------------------------------------------------------------------------------------
    def _samples(self) -> Iterator[Found]:
        for chunk in self.episodes.iter_slices(CHUNK):
            turns = rows_by_key(self.run_data.turns, chunk["key"])
            for row in chunk.iter_rows(named=True):
                yield self._sample(row, turns.get(row["key"], []))

    def _sample(self, row: Row, turns: Sequence[Row]) -> Found:
        sample = self.run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
        views, _ = replay_episode(self.run_data, row, turns)
        messages = [message for turn in turns for message in self._messages(row, turn, views.get(turn["turn"]))]
        usage = _usage(row["prompt_tokens"], row["reply_tokens"])
        error = row["error"] or row["ending"] if row["ending"] in ERRORS else None
        return {
            "id": re.sub(r"[^A-Za-z0-9._-]", "-", f"{row['scenario']}-{row['sample_id']:04d}"),
            "epoch": 1,
            "input": sample.prompt if sample else f"{row['scenario']} sample {row['sample_id']}",
            **({"choices": [*sample.options, *sample.categories]} if sample and self.protocol is Protocol.MCQA else {}),
            "target": sample.answer if sample else "",
            "messages": messages,
            "output": _output(self.model.name, messages, usage),
            **({} if error else {"scores": self._scores(row, turns, sample)}),
            "metadata": {name: row[name] for name in ("key", "scenario", "sample_id", "seed", "ending")},
            "store": {},
            "events": [],
            "attachments": {},
            "model_usage": {self.model.name: usage},
            "started_at": self.made,
            "completed_at": self.made,
            "total_time": row["seconds"] if isfinite(row["seconds"]) else None,
            **({"error": {"message": error, "traceback": "", "traceback_ansi": ""}} if error else {}),
        }

    def _messages(self, row: Row, turn: Row, posed: ReplayedTurn | None) -> Iterator[Found]:
        """The question with its picture named, and the reply."""
        message_id = f"{row['key']}/{turn['turn']}"
        text = f"[picture: {turn['image']}]"
        if posed is not None:
            text = f"{text}\n\n{self._question(row, posed.view)}"
        read = {name: turn[name] for name in ("frame", "image", "option", "category", "action", "move")}
        read |= {name: turn[name] for name in ("read_as", "judged") if turn[name] is not None}
        yield {"id": f"{message_id}/question", "role": "user", "source": "input", "content": text, "metadata": read}
        yield {
            "id": f"{message_id}/reply", "role": "assistant", "source": "generate", "content": turn["reply"] or "",
            "model": self.model.name,
        }  # fmt: skip

    def _question(self, row: Row, view: View) -> str:
        if self.protocol is Protocol.TOOLS:
            tools = functions(calls_for_view(row["scenario"], view))
            return tool_messages(view, tools, self.condition, self.model.calls_natively)[-1].text
        if self.protocol.is_open_ended:
            return open_question(view).text
        return question_message(view, template=self.condition.template).text

    def _scores(self, row: Row, turns: Sequence[Row], sample: Sample | None) -> Found:
        last_reply = turns[-1]["reply"] if turns else ""
        if self.protocol is Protocol.OEG:
            return _judged(self.verdicts.get(row["key"]), last_reply)
        score = {
            "answer": last_reply,
            "explanation": f"the episode ended as {row['ending']} after {row['turns']} turns",
        }
        return {
            "acc": {"value": "C" if row["ending"] == Ending.CORRECT else "I", **score},
            "ps": {"value": row["turns"] - 1, **score},
        }


def _judged(verdict: Row | None, last_reply: str) -> Found:
    """The judge's bits of an open-ended answer; none where it gave no verdict."""
    given_bits = [bit for bit in BITS if verdict is not None and verdict[bit] is not None]
    return {
        bit: {"value": "C" if verdict[bit] else "I", "answer": last_reply, "explanation": verdict["text"]}
        for bit in given_bits
        if verdict is not None
    }


def _summary(sample: Found) -> Found:
    """The sample without its messages, its texts cut, as the viewer lists it."""
    summary_keys = ("id", "epoch", "choices", "metadata", "model_usage", "started_at", "completed_at", "total_time")
    scores = {
        name: {key: value[:LONGEST_SUMMARY] if isinstance(value, str) else value for key, value in score.items()}
        for name, score in sample.get("scores", {}).items()
    }
    return {
        **{name: sample[name] for name in summary_keys if name in sample},
        "input": sample["input"][:LONGEST_SUMMARY],
        "target": sample["target"][:LONGEST_SUMMARY],
        **({"scores": scores} if scores else {}),
        **({"error": sample["error"]["message"][:LONGEST_SUMMARY]} if "error" in sample else {}),
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def _output(model: str, messages: Sequence[Found], usage: Found) -> Found:
    replies = [message for message in messages if message["role"] == "assistant"][-1:]
    return {"model": model, "choices": [{"message": reply, "stop_reason": "stop"} for reply in replies], "usage": usage}


def _usage(prompt: int, reply: int) -> Found:
    return {"input_tokens": prompt, "output_tokens": reply, "total_tokens": prompt + reply}


def _metric(name: str, value: float, span: Found | None = None) -> Found:
    return {"name": name, "value": value, **({"metadata": span} if span else {})}


def _place(data: str) -> str:
    """An address as it is, a folder by its last name: no path of this machine goes out."""
    return data if "://" in data else Path(data).name


def _put(log: ZipFile, name: str, content: object) -> None:
    member = ZipInfo(name)  # its time is 1980-01-01: equal runs give equal bytes
    member.compress_type = ZIP_DEFLATED
    log.writestr(member, json.dumps(content, allow_nan=False))
