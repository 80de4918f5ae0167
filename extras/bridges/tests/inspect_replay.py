"""Plays recorded episodes through the real Inspect, in an interpreter that has it: ``python -m ... EPISODES.json DATA LOGS``.

A model gives the recorded replies; for each episode one line of JSON is printed.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage, GenerateConfig, ModelAPI, ModelOutput, modelapi

RECORDED: dict[tuple[str, int], list[str]] = {}
SENT: dict[tuple[str, int], list[list[list[Any]]]] = defaultdict(list)


@modelapi("recorded")
class Recorded(ModelAPI):
    """Gives the recorded reply of each turn and keeps what it was sent."""

    async def generate(
        self, input: list[ChatMessage], tools: Any, tool_choice: Any, config: GenerateConfig
    ) -> ModelOutput:
        about = input[-1].metadata or {}
        episode = about["scenario"], about["sample"]
        SENT[episode].append([[message.role, message.text, _pictures(message)] for message in input])
        return ModelOutput.from_content("recorded/m", RECORDED[episode][about["turn"]])


def _pictures(message: ChatMessage) -> int:
    return 0 if isinstance(message.content, str) else sum(part.type == "image" for part in message.content)


def play(episodes: list[dict[str, Any]], data: str, logs: str) -> None:
    """Play each condition and policy as one evaluation."""
    for name in dict.fromkeys((episode["condition"], episode["policy"]) for episode in episodes):
        group = [episode for episode in episodes if (episode["condition"], episode["policy"]) == name]
        SENT.clear()
        RECORDED.clear()
        RECORDED.update({(episode["scenario"], episode["sample"]): episode["replies"] for episode in group})
        ids = [f"{episode['scenario']}-{episode['sample']:04d}" for episode in group]
        (log,) = evaluate(
            "proactive_sweep/proactivebench", model="recorded/m", task_args={"data": data, "condition": name[0]},
            sample_id=ids, log_dir=logs, display="none",
        )  # fmt: skip
        metrics = {score.name: {n: m.value for n, m in score.metrics.items()} for score in log.results.scores}
        samples = {(sample.metadata["scenario"], sample.metadata["sample"]): sample for sample in log.samples}
        for episode in group:
            sample = samples[episode["scenario"], episode["sample"]]
            print(json.dumps(_summarize(sample) | {"metrics": metrics, "status": log.status}), flush=True)


def _summarize(sample: EvalSample) -> dict[str, Any]:
    (score,) = sample.scores.values()
    names = ("frame", "option", "category", "action", "move")
    return {
        "ending": sample.metadata["ending"], "score": score.value,
        "turns": [[turn[name] for name in names] for turn in sample.metadata["turns"]],
        "sent": SENT[sample.metadata["scenario"], sample.metadata["sample"]],
        "pictures": sum(map(_pictures, sample.messages)),
    }  # fmt: skip


if __name__ == "__main__":
    play(json.loads(Path(sys.argv[1]).read_text()), *sys.argv[2:])
