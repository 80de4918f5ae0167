"""``models try``: plays two samples of each scenario and condition as a run, whose folder is dropped, and judges each model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl

from actors.trial.certificate import Certificate
from envs.types import ERRORS, Ending
from orchestrator.execution.attempt import run
from orchestrator.inspection.certificate import read_certificates
from orchestrator.inspection.model_try import trial_sweep
from orchestrator.planning.plan import worker_group
from orchestrator.storage.run_folder import planned_episodes
from sweeps.spec import ModelSpec

UNANSWERED = (*ERRORS, Ending.OVERFLOW)
"""Endings of episodes that the model could not play to their end."""


class Row(NamedTuple):
    """The outcome of one model's trial."""

    model: str
    episodes: int = 0
    ended: int = 0
    """Episodes with an ending in ``UNANSWERED``."""
    certificate: str = ""
    input: str = ""
    """Description and status of its certificate; empty if nothing was recorded."""
    wrong: str = ""
    """The fault, in one sentence; empty if none."""

    @property
    def cells(self) -> tuple[str, ...]:
        return self.model, f"{self.ended} of {self.episodes}", self.input or "-", self.wrong or "nothing"


def try_models(
    models: Sequence[ModelSpec], sweep: Path | None, data: Path | None, say: Callable[[str], None]
) -> list[Row]:
    """Return one row per model; a model that fails does not stop the others. Raises SweepError, BadData, KeyboardInterrupt."""
    with TemporaryDirectory() as folder:
        output = Path(folder)
        outcome = run(trial_sweep(models, sweep, data), output, say=say)
        if outcome.interrupted:
            raise KeyboardInterrupt
        episodes, certificates = planned_episodes(output).collect(), read_certificates(output)
    unfinished = set(outcome.rows.filter(pl.col("finished") < pl.col("planned"))["model"])
    rows = []
    for model in models:
        group, refused = worker_group(model), f"{model.name}/"  # a service may refuse the requests of one condition
        reasons = (why for name, why in outcome.reasons.items() if name == group or name.startswith(refused))
        stopped = next(reasons, "") if model.name in unfinished else ""
        played = episodes.filter(model=model.name)
        rows.append(judge_trial(model, played, certificates.get(model.name), stopped))
    return rows


def judge_trial(model: ModelSpec, episodes: pl.DataFrame, certificate: Certificate | None, stopped: str = "") -> Row:
    """Return the row of a model's episodes; ``stopped``: why some of them were not played."""
    ended = episodes.filter(pl.col("ending").is_in(UNANSWERED))
    text, status = (certificate.describe(), certificate.status) if certificate else ("", "")
    unequal = text if status == "unequal" else ""
    absent = "" if episodes.height else "there is no episode for it"
    fault = next(filter(None, (stopped, unequal, *ended["error"].drop_nulls(), absent)), "")
    return Row(model.name, episodes.height, ended.height, text, status, fault)
