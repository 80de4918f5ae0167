"""The score of a run in the Hub's format: each model's ``.eval_results/proactivebench.yaml`` and the data set's ``eval.yaml``.

Only the score (``HEADLINE``) is written, never an extension: other conditions, protocols, samples and measures of this program.
Format: https://huggingface.co/docs/hub/eval-results
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

from envs.errors import RunFolderError
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.paper.published import foreign_scenarios, subset_scenarios
from orchestrator.report.run_data import RunData
from orchestrator.storage import software
from orchestrator.storage.progress_log import playing_times
from sweeps.model import ModelSpec
from sweeps.protocol import HEADLINE, ZERO_SHOT, Protocol

DATASET = "tdemin16/ProactiveBench"
FRAMEWORK = "proactive-sweep"
TASKS = {
    "mcqa-zero-shot-v1": ("acc", "accuracy in percent"),
    "mcqa-zero-shot-v1-suggestions": ("ps", "suggestions per episode"),
}
"""Task of the data set -> its measure, and what that is."""
RESULTS = ".eval_results/proactivebench.yaml"
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
EVAL: dict[str, Any] = {
    "name": "ProactiveBench",
    "description": f"{HEADLINE}: does a multimodal model ask for a better view before it answers? Zero-shot multiple choice, "
    "unweighted means over seven scenarios, on the 7,557 samples that the paper's filter keeps (arXiv:2603.19466).",
    "evaluation_framework": FRAMEWORK,
    "tasks": [{"id": task, "config": "default", "split": "test"} for task in TASKS],
}


def write(run_data: RunData, folder: Path) -> None:
    """Write the results of every Hub model whose score is complete.

    Raises RunFolderError if there is none, if two belong to one repository, or if the samples are not the published ones.
    """
    if reasons := foreign_scenarios(run_data) | subset_scenarios(run_data):
        scenario, reason = next(iter(reasons.items()))
        raise RunFolderError(f"{run_data.folder} has no {HEADLINE}: {scenario}: {reason}")
    averages = estimate(run_data).averages.filter(
        pl.col("all_seven"), condition=ZERO_SHOT, protocol=Protocol.MCQA.value
    )
    models = {model.name: model for model in run_data.sweep.models if is_on_hub(model)}
    rows = [row for row in averages.iter_rows(named=True) if row["model"] in models]
    if not rows:
        raise RunFolderError(
            f"{run_data.folder} has no {HEADLINE} of a model of the Hub: it needs all episodes of zero-shot in seven scenarios"
        )
    (source, count), *_ = Counter(models[row["model"]].source for row in rows).most_common(1)
    if count > 1:
        raise RunFolderError(
            f"{source} has {count} entries in {run_data.folder}, and the Hub shows one score per model; export a run with one"
        )
    (folder / "eval.yaml").write_text(yaml.safe_dump(EVAL, sort_keys=False), encoding="utf-8")
    for row in rows:
        file = folder / models[row["model"]].source / RESULTS
        file.parent.mkdir(parents=True)
        entries = eval_result_entries_to_yaml(_entries(run_data, models[row["model"]], row))
        file.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")


def is_on_hub(model: ModelSpec) -> bool:
    """Return True if the weights are those of the Hub's OWNER/NAME: no adapter, local folder or service."""
    is_base = model.is_local and not model.lora
    return is_base and bool(HUB_NAME.fullmatch(model.source)) and not Path(model.source).exists()


def _entries(run_data: RunData, model: ModelSpec, row: dict[str, Any]) -> list[EvalResultEntry]:
    times = playing_times(run_data.folder)
    decoding = run_data.sweep.sampling_for(Protocol.MCQA).description
    settings = {
        name: value for name, value in model.identity.items() if name not in ("source", "input") and value != ""
    }
    changing = (f"{name} {value}" for name, value in settings.items())
    origin = "; ".join((HEADLINE, *changing, decoding, f"{FRAMEWORK} {software.version()}"))
    return [
        EvalResultEntry(
            dataset_id=DATASET, task_id=task, value=round(row[name], 2),
            date=times[1].date().isoformat() if times else None,
            notes=f"{meaning}, 95% interval {row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f}; {origin}",
        )
        for task, (name, meaning) in TASKS.items()
    ]  # fmt: skip
