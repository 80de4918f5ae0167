"""A run in the schemas of Every Eval Ever: one record a model with its results, and its episodes of multiple choice beside it.

Every record is validated against the vendored schemas (``schemas``) before the export is given its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from envs.types import Sample
from orchestrator.report.html.episode_view import rows_by_key
from orchestrator.report.run_data import RunData
from orchestrator.storage import software
from orchestrator.storage.run_folder import RunFolderError, read_status
from sweeps.spec import ModelSpec, Protocol

VERSION = "0.3.0"
SCHEMAS = Path(__file__).parent / "schemas"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
CHUNK = 2_000
"""Episodes whose turns are held at once."""
ACC = {
    "metric_id": "accuracy", "metric_name": "Accuracy", "metric_kind": "accuracy", "metric_unit": "percent",
    "evaluation_description": "Episodes that end with the right category; errors are in no measure.",
    "lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": 100,
}  # fmt: skip
PS = {
    "metric_id": "proactivebench.suggestions", "metric_name": "Proactive suggestions", "metric_kind": "count",
    "metric_unit": "suggestions", "evaluation_description": "Mean number of suggestions in an episode.",
    "lower_is_better": False, "score_type": "continuous", "min_score": 0, "max_score": "Infinity",
}  # fmt: skip


def write(run_data: RunData, into: Path, by: str = "") -> None:
    """``data/proactivebench/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl`` for every model with a finished cell."""
    eval_validator, instance_validator = (_validator(name) for name in ("eval", "instance_level_eval"))
    written_at = str(int(max(path.stat().st_mtime for path in (run_data.folder / "episodes").glob("*.parquet"))))
    packages = read_status(run_data.folder).get("packages", {})
    for model in run_data.sweep.models:
        rows = run_data.rows.filter((pl.col("model") == model.name) & pl.col("acc").is_not_null())
        if rows.is_empty():
            continue
        record = _record(run_data, model, rows.to_dicts(), written_at, by, packages)
        developer, _, name = record["model_info"]["id"].partition("/")
        place = Path("data/proactivebench") / developer / name
        number = UUID(bytes=sha256(record["evaluation_id"].encode()).digest()[:16], version=4)
        (into / place).mkdir(parents=True)
        lines = into / place / f"{number}_samples.jsonl"
        count = _write_lines(lines, run_data, model, record, instance_validator)
        record["detailed_evaluation_results"] = {
            "format": "jsonl", "file_path": (place / lines.name).as_posix(), "hash_algorithm": "sha256",
            "checksum": sha256(lines.read_bytes()).hexdigest(), "total_rows": count,
        }  # fmt: skip
        _check(eval_validator, record)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (into / place / f"{number}.json").write_text(text, encoding="utf-8")


def _record(
    run_data: RunData,
    model: ModelSpec,
    rows: Sequence[Mapping[str, Any]],
    written_at: str,
    by: str,
    packages: Mapping[str, str],
) -> dict[str, Any]:
    model_info = _model(model, packages)
    return {
        "schema_version": VERSION,
        "evaluation_id": f"proactivebench/{model_info['id']}/{written_at}",
        "retrieved_timestamp": written_at,
        "source_metadata": {
            "source_name": f"proactive-sweep run {run_data.sweep.name}", "source_type": "evaluation_run",
            "source_organization_name": by or "not stated", "evaluator_relationship": "other",
        },
        "eval_library": {"name": "proactive-sweep", "version": software.version()},
        "model_info": model_info,
        "evaluation_results": [evaluation for row in rows for evaluation in _results(run_data, row)],
    }  # fmt: skip


def _model(model: ModelSpec, packages: Mapping[str, str]) -> dict[str, Any]:
    served = model.backend == "openai"
    on_hub = HUB_ID.fullmatch(model.source) is not None and not served
    builtin = model.backend == "builtin"
    details = {
        "deployment_type": "externally_managed" if served else "self_deployed",
        "model_availability": "open_weights" if on_hub or builtin else "unknown",
        **({"revision": model.revision} if model.revision else {}),
        **({"policy": "a built-in policy, no model"} if builtin else {}),
    }
    model_id = model.source if on_hub else f"{'endpoint' if served else 'proactive-sweep'}/{model.name}"
    engine = {
        "name": "proactive-sweep" if builtin else model.backend,
        "version": packages.get(model.backend, "unknown"),
    }
    return {"name": model.name, "id": model_id, "inference_engine": engine, "additional_details": details}


def _results(run_data: RunData, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    sweep, condition = run_data.sweep, run_data.conditions.get(row["condition"])
    sampling = sweep.open_ended.sampling if Protocol(row["protocol"]).is_open_ended else sweep.sampling
    details = {
        name: str(row[name])
        for name in ("planned", "finished", "errors", "scored", "loops")
        if row.get(name) is not None
    }
    for metric, score in (("acc", row["acc"]), ("ps", row["ps"])):
        interval = {"lower": row["acc_low"], "upper": row["acc_high"], "confidence_level": 0.95}
        uncertainty = {"num_samples": row["scored"], **({"confidence_interval": interval} if metric == "acc" else {})}
        args: dict[str, Any] = {"max_tokens": sampling.max_tokens}
        yield {
            "evaluation_result_id": f"{row['cell']}/{metric}",
            "evaluation_name": _named(row),
            "source_data": _source(run_data, row),
            "metric_config": ACC if metric == "acc" else PS,
            "score_details": {"score": score, "details": details, "uncertainty": uncertainty},
            "generation_config": {
                "generation_args": args,
                "additional_details": {"sampling": sampling.model_dump_json(), "condition": "" if condition is None
                                       else condition.model_dump_json()},
            },
        }  # fmt: skip


def _named(row: Mapping[str, Any]) -> str:
    protocol = "" if row["protocol"] == Protocol.MCQA else f", {row['protocol']}"
    return f"ProactiveBench {row['scenario']} ({row['condition']}{protocol})"


def _source(run_data: RunData, row: Mapping[str, Any]) -> dict[str, Any]:
    scheme, _, place = run_data.sweep.data.partition("://")
    if scheme == "hf" and place:
        repository = "/".join(place.split("/")[:2]).partition("@")[0]
        return {
            "dataset_name": f"ProactiveBench {row['scenario']}", "source_type": "hf_dataset", "hf_repo": repository,
            "samples_number": row["planned"],
        }  # fmt: skip
    details = {"folder": Path(run_data.sweep.data).name, "samples": str(row["planned"])}
    return {"dataset_name": f"ProactiveBench {row['scenario']}", "source_type": "other", "additional_details": details}


def _write_lines(
    path: Path, run_data: RunData, model: ModelSpec, record: Mapping[str, Any], valid: Draft7Validator
) -> int:
    """One line an episode that is scored by its ending, as multiple choice is; how many."""
    model_episodes = run_data.scored.filter(pl.col("model") == model.name).sort("key")
    with path.open("w", encoding="utf-8") as file:
        for chunk in model_episodes.iter_slices(CHUNK):
            turns = rows_by_key(run_data.turns, chunk["key"])
            for row in chunk.iter_rows(named=True):
                sample = run_data.samples.get(row["scenario"], {}).get(row["sample_id"])
                line = _line(row, turns.get(row["key"], []), sample, record)
                _check(valid, line)
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return model_episodes.height


def _line(
    row: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], sample: Sample | None, record: Mapping[str, Any]
) -> dict[str, Any]:
    question, answer = ("", []) if sample is None else (sample.prompt, [sample.answer])
    in_words = Protocol(row["protocol"]).is_open_ended
    choices = None if sample is None or in_words else [*sample.options, *sample.categories]
    messages = [message for turn in turns for message in _messages(turn, question)]
    return {
        "schema_version": VERSION,
        "evaluation_id": record["evaluation_id"],
        "model_id": record["model_info"]["id"],
        "evaluation_name": _named(row),
        "evaluation_result_id": f"{row['cell']}/acc",
        "sample_id": f"{row['scenario']}/{row['sample_id']}",
        "sample_hash": None if sample is None else sha256((question + "".join(answer)).encode()).hexdigest(),
        "interaction_type": "multi_turn",
        "input": {"raw": question, "reference": answer, "choices": choices},
        "output": None,
        "messages": messages,
        "answer_attribution": _attribution(turns, "a judge" if in_words else "option text, then option letter"),
        "evaluation": {
            "score": float(bool(row["correct"])), "is_correct": bool(row["correct"]), "num_turns": max(1, row["turns"])
        },
        "token_usage": {
            "input_tokens": row["prompt_tokens"], "output_tokens": row["reply_tokens"],
            "total_tokens": row["prompt_tokens"] + row["reply_tokens"],
        },
        "performance": {"latency_ms": round(1000 * row["seconds"], 3)},
        "error": row["error"],
        "metadata": {name: str(row[name]) for name in ("key", "condition", "ending", "seed")},
    }  # fmt: skip


def _messages(turn: Mapping[str, Any], question: str) -> Iterator[dict[str, Any]]:
    """The picture that was shown and the reply; the options of each turn follow from the game and are not repeated."""
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


def _validator(name: str) -> Draft7Validator:
    return Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")))


def _check(validator: Draft7Validator, record: Mapping[str, Any]) -> None:
    problem = next(iter(validator.iter_errors(record)), None)
    if problem is not None:
        raise RunFolderError(
            f"the run does not fit the schema of Every Eval Ever: {problem.json_path}: {problem.message[:200]}"
        )
