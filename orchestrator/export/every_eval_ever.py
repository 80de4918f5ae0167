"""Export to the schemas of Every Eval Ever: one record per model with its results, and one line per episode.

Every record and line is validated against the vendored schemas (``schemas``).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from envs.errors import RunFolderError
from envs.types import Sample
from orchestrator.report.html.episode_view import episodes_with_turns
from orchestrator.report.run_data import RunData
from orchestrator.storage import software
from orchestrator.storage.status import read_status
from sweeps.spec import ModelSpec, Protocol

VERSION = "0.3.0"
SCHEMAS = Path(__file__).parent / "schemas"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
ACC = {
    "metric_id": "accuracy", "metric_name": "Accuracy", "metric_kind": "accuracy", "metric_unit": "percent",
    "evaluation_description": "Episodes that end with the right category; errors are excluded from all measures.",
    "lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 100,
}  # fmt: skip
PS = {
    "metric_id": "proactivebench.suggestions", "metric_name": "Proactive suggestions", "metric_kind": "count",
    "metric_unit": "suggestions", "evaluation_description": "Mean number of suggestions in an episode.",
    "lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": "Infinity",
}  # fmt: skip


def write(run_data: RunData, folder: Path, evaluator: str = "") -> None:
    """Write ``data/proactivebench/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl`` for each model with a finished cell."""
    record_schema, line_schema = (
        Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")))
        for name in ("eval", "instance_level_eval")
    )
    written_at = int(max(path.stat().st_mtime for path in (run_data.folder / "episodes").glob("*.parquet")))
    for model in run_data.sweep.models:
        rows = run_data.rows.filter((pl.col("model") == model.name) & pl.col("acc").is_not_null())
        if rows.is_empty():
            continue
        record = _record(run_data, model, rows.to_dicts(), str(written_at), evaluator)
        developer, _, name = record["model_info"]["id"].partition("/")
        uuid = UUID(bytes=sha256(record["evaluation_id"].encode()).digest()[:16], version=4)
        path = folder / "data/proactivebench" / developer / name / f"{uuid}_samples.jsonl"
        path.parent.mkdir(parents=True)
        line_count = _write_lines(path, run_data, model, record, line_schema)
        record["detailed_evaluation_results"] = {
            "format": "jsonl", "file_path": path.relative_to(folder).as_posix(), "hash_algorithm": "sha256",
            "checksum": sha256(path.read_bytes()).hexdigest(), "total_rows": line_count,
        }  # fmt: skip
        _validate(record_schema, record)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        path.with_name(f"{uuid}.json").write_text(text, encoding="utf-8")


def _record(
    run_data: RunData, model: ModelSpec, rows: Sequence[Mapping[str, Any]], written_at: str, evaluator: str
) -> dict[str, Any]:
    model_info = _model_info(model, read_status(run_data.folder).get("packages", {}))
    return {
        "schema_version": VERSION,
        "evaluation_id": f"proactivebench/{model_info['id']}/{written_at}",
        "retrieved_timestamp": written_at,
        "source_metadata": {
            "source_name": f"proactive-sweep run {run_data.sweep.name}", "source_type": "evaluation_run",
            "source_organization_name": evaluator or "not stated", "evaluator_relationship": "other",
        },
        "eval_library": {"name": "proactive-sweep", "version": software.version()},
        "model_info": model_info,
        "evaluation_results": [evaluation for row in rows for evaluation in _results(run_data, row)],
    }  # fmt: skip


def _model_info(model: ModelSpec, packages: Mapping[str, str]) -> dict[str, Any]:
    is_service, is_builtin = model.backend == "openai", model.backend == "builtin"
    on_hub = HUB_ID.fullmatch(model.source) is not None and not is_service
    details = {
        "deployment_type": "externally_managed" if is_service else "self_deployed",
        "model_availability": "open_weights" if on_hub or is_builtin else "unknown",
        **({"revision": model.revision} if model.revision else {}),
        **({"policy": "a built-in policy, no model"} if is_builtin else {}),
    }
    engine = {
        "name": "proactive-sweep" if is_builtin else model.backend,
        "version": packages.get(model.backend, "unknown"),
    }
    model_id = model.source if on_hub else f"{'endpoint' if is_service else 'proactive-sweep'}/{model.name}"
    return {"name": model.name, "id": model_id, "inference_engine": engine, "additional_details": details}


def _results(run_data: RunData, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    sweep, condition = run_data.sweep, run_data.conditions.get(row["condition"])
    sampling = sweep.sampling_for(Protocol(row["protocol"]))
    counts = ("planned", "finished", "errors", "scored", "loops")
    details = {name: str(row[name]) for name in counts if row.get(name) is not None}
    interval = {"lower": row["acc_low"], "upper": row["acc_high"], "confidence_level": 0.95}
    for metric, config, uncertainty in (("acc", ACC, {"confidence_interval": interval}), ("ps", PS, {})):
        yield {
            "evaluation_result_id": f"{row['cell']}/{metric}",
            "evaluation_name": _evaluation_name(row),
            "source_data": _source_data(run_data, row),
            "metric_config": config,
            "score_details": {
                "score": row[metric], "details": details, "uncertainty": {"num_samples": row["scored"], **uncertainty},
            },
            "generation_config": {
                "generation_args": {"max_tokens": sampling.max_tokens},
                "additional_details": {
                    "sampling": sampling.model_dump_json(), "condition": condition.model_dump_json() if condition else "",
                },
            },
        }  # fmt: skip


def _evaluation_name(row: Mapping[str, Any]) -> str:
    protocol = "" if row["protocol"] == Protocol.MCQA else f", {row['protocol']}"
    return f"ProactiveBench {row['scenario']} ({row['condition']}{protocol})"


def _source_data(run_data: RunData, row: Mapping[str, Any]) -> dict[str, Any]:
    dataset = {"dataset_name": f"ProactiveBench {row['scenario']}"}
    scheme, _, path = run_data.sweep.data.partition("://")
    if scheme == "hf" and path:
        repository = "/".join(path.split("/")[:2]).partition("@")[0]
        return {**dataset, "source_type": "hf_dataset", "hf_repo": repository, "samples_number": row["planned"]}
    details = {"folder": Path(run_data.sweep.data).name, "samples": str(row["planned"])}
    return {**dataset, "source_type": "other", "additional_details": details}


def _write_lines(
    path: Path, run_data: RunData, model: ModelSpec, record: Mapping[str, Any], schema: Draft7Validator
) -> int:
    """Write a line for each episode that is scored by its ending (not by a judge) and return the number of lines."""
    model_episodes = run_data.scored.filter(pl.col("model") == model.name).sort("key")
    with path.open("w", encoding="utf-8") as file:
        for row, turns in episodes_with_turns(run_data, model_episodes):
            sample = run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
            line = _line(row, turns, sample, record)
            _validate(schema, line)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return model_episodes.height


def _line(
    row: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], sample: Sample | None, record: Mapping[str, Any]
) -> dict[str, Any]:
    question, answer = ("", []) if sample is None else (sample.prompt, [sample.answer])
    is_open_ended = Protocol(row["protocol"]).is_open_ended
    choices = None if sample is None or is_open_ended else [*sample.options, *sample.categories]
    return {
        "schema_version": VERSION,
        "evaluation_id": record["evaluation_id"],
        "model_id": record["model_info"]["id"],
        "evaluation_name": _evaluation_name(row),
        "evaluation_result_id": f"{row['cell']}/acc",
        "sample_id": f"{row['scenario']}/{row['sample_id']}",
        "sample_hash": None if sample is None else sha256((question + "".join(answer)).encode()).hexdigest(),
        "interaction_type": "multi_turn",
        "input": {"raw": question, "reference": answer, "choices": choices},
        "output": None,
        "messages": [message for turn in turns for message in _messages(turn, question)],
        "answer_attribution": _attribution(turns, "a judge" if is_open_ended else "option text, then option letter"),
        "evaluation": {
            "score": float(bool(row["correct"])), "is_correct": bool(row["correct"]), "num_turns": max(1, row["turns"])
        },
        "token_usage": token_usage(row["prompt_tokens"], row["reply_tokens"]),
        "performance": {"latency_ms": round(1000 * row["seconds"], 3)},
        "error": row["error"],
        "metadata": {name: str(row[name]) for name in ("key", "condition", "ending", "seed")},
    }  # fmt: skip


def token_usage(prompt: int, reply: int) -> dict[str, int]:
    """Return the tokens of an episode, or of several, under the names that logs of evaluations share."""
    return {"input_tokens": prompt, "output_tokens": reply, "total_tokens": prompt + reply}


def _messages(turn: Mapping[str, Any], question: str) -> Iterator[dict[str, Any]]:
    """Yield the question with the name of its picture, then the reply; the stored turns hold no options."""
    prompt_text = f"[{turn['image']}]" + (f" {question}" if question else "")
    yield {"turn_idx": 2 * turn["turn"], "role": "user", "content": prompt_text}
    yield {"turn_idx": 2 * turn["turn"] + 1, "role": "assistant", "content": turn["reply"]}


def _attribution(turns: Sequence[Mapping[str, Any]], method: str) -> list[dict[str, Any]]:
    return [
        {
            "turn_idx": 2 * turn["turn"] + 1, "source": f"messages[{2 * turn['turn'] + 1}].content",
            "extracted_value": str(turn["action"]), "extraction_method": method,
            "is_terminal": turn is turns[-1],
        }
        for turn in turns
    ]  # fmt: skip


def _validate(schema: Draft7Validator, record: Mapping[str, Any]) -> None:
    problem = next(iter(schema.iter_errors(record)), None)
    if problem is not None:
        raise RunFolderError(
            f"the run does not fit the schema of Every Eval Ever: {problem.json_path}: {problem.message[:200]}"
        )
