"""The exact values of operating curves, compared with the played episodes of the same cells."""

import numpy as np
import polars as pl

from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, operating_cells
from sweeps.sampling import Sampling

NAMES = ("model", "scenario", "condition")


@cached_per_run
def exact_and_played(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell that was also played: exact and played acc and ps, and z of the differences if replies are sampled.

    The exact values are the greedy point for greedy decoding, and the model's own point for sampling at temperature 1; other
    decodings are not compared. ``draws`` counts the episodes of each sample, replicates with other seeds included.
    """
    rows = []
    point = _decoding_point(run_data.sweep.sampling)
    for cell in operating_cells(run_data):
        exact = _exact_points(cell, point)
        played = _played_episodes(run_data, cell)
        draws = played.height // len(cell.samples)
        if exact is None or not draws or played.height % len(cell.samples):
            continue
        means = 100 * float(played["correct"].mean()), float(played["turns"].mean()) - 1  # type: ignore[arg-type]
        z = _deviations(cell, exact, means, draws) if point == "own" else (None, None)
        figures = (*exact, *means, *z, 100 * cell.unreadable)
        rows.append((cell.model, cell.scenario, played["condition"][0], point, draws, *figures))
    names = {**dict.fromkeys((*NAMES, "point"), pl.String), "draws": pl.Int64}
    kinds = ("exact_acc", "exact_ps", "played_acc", "played_ps", "z", "z_ps", "unreadable")
    return pl.DataFrame(rows, schema={**names, **dict.fromkeys(kinds, pl.Float64)}, orient="row")


def _exact_points(cell: OperatingCell, point: str) -> tuple[float, float] | None:
    """Return exact acc (percent) and ps of the published order; None if this decoding has no exact values."""
    summary = cell.summary
    samples = summary.greedy if point == "greedy" else np.array(summary.published[:2]).T
    if not cell.exact or not point or samples is None:
        return None
    right, suggestions = samples.mean(axis=0).tolist()
    return 100 * right, suggestions


def _played_episodes(run_data: RunData, cell: OperatingCell) -> pl.DataFrame:
    """Return the scored episodes that asked the cell's questions about its samples in the published order."""
    source = run_data.conditions[cell.condition]
    conditions = [(name, c.identity) for name, c in run_data.conditions.items() if not c.every_state]
    played = [name for name, identity in conditions if {**identity, "every_state": True} == source.identity]
    columns = ["model", "scenario", "condition", "protocol", "sample_id", "correct", "turns"]
    episodes = [run_data.scored.select(columns)]
    if run_data.replicates.height:
        episodes.append(run_data.replicates.filter(order=0).select(columns))
    return pl.concat(episodes).filter(
        pl.col("condition").is_in(played), pl.col("sample_id").is_in([sample.id for sample in cell.samples]),
        model=cell.model, scenario=cell.scenario, protocol="mcqa",
    )  # fmt: skip


def _deviations(
    cell: OperatingCell, exact: tuple[float, float], played: tuple[float, float], draws: int
) -> tuple[float | None, ...]:
    """Return played minus exact acc and ps in standard errors of the played means; None if decoding does not vary."""
    own = cell.summary.published
    variances = (100**2 * own.accuracy * (1 - own.accuracy), own.squares - own.suggestions**2)
    errors = [float(np.sqrt(max(variance.sum(), 0.0) / draws)) / len(variance) for variance in variances]
    return tuple(
        (mean - expected) / error if error > 1e-9 else None
        for mean, expected, error in zip(played, exact, errors, strict=True)
    )


def _decoding_point(sampling: Sampling) -> str:
    """Return the point that this decoding plays: ``greedy``, ``own`` (temperature 1), or empty for any other."""
    if sampling.checkpoint:
        return ""
    if sampling.temperature == 0:
        return "greedy"
    return "own" if (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 1.0, -1) else ""
