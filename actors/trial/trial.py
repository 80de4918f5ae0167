"""Tries a loaded engine: certifies its inputs, and plays episodes."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from actors.engine.backend import Backend
from actors.engine.in_flight import choose_in_flight
from actors.playing.episode_runner import EpisodeRunner, PlanView
from actors.trial.certificate import Certificate
from actors.trial.certify import record_inputs
from sweeps.spec import ModelSpec


class TrialReport(NamedTuple):
    """The measurements of a trial."""

    seconds: float
    """Time to play all episodes."""
    endings: dict[str, int]
    """Ending -> episodes."""
    reason: str
    """Error of the first episode that ended with one; empty if none did."""
    certificate: Certificate
    """The model input of one episode per cell."""


async def run_trial(
    plan: PlanView, model: ModelSpec, backend: Backend, data: Path, ordinals: Sequence[int]
) -> TrialReport:
    """Certify the inputs of one episode per cell, play all episodes, and close the backend."""
    cells = {plan.task(ordinal)[0]: ordinal for ordinal in reversed(ordinals)}
    certificate = await record_inputs(plan, model, backend, data, sorted(cells.values()))
    began, errors, endings = perf_counter(), list[str](), Counter[str]()
    runner = EpisodeRunner(plan, {model.name: backend}, choose_in_flight(model, backend.cache_tokens).episodes)
    async for batch in runner.play(ordinals):
        errors += filter(None, batch.episodes["error"])
        endings.update(batch.episodes["ending"])
    seconds = perf_counter() - began
    await backend.close()
    return TrialReport(seconds, dict(sorted(endings.items())), (errors or [""])[0], certificate)
