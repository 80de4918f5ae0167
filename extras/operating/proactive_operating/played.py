"""The exact values of operating curves, compared with the played episodes of the same cells."""

import polars as pl

from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, operating_cells

COLUMNS = ["model", "scenario", "condition", "protocol", "sample_id", "correct", "turns"]


@cached_per_run
def exact_and_played(run_data: RunData) -> pl.DataFrame:
    """Return one row per cell that was also played greedily: exact and played acc and ps, and the unreadable share."""
    rows = []
    is_greedy = run_data.sweep.sampling.temperature == 0 and not run_data.sweep.sampling.checkpoint
    for cell in operating_cells(run_data) if is_greedy else ():
        played, greedy = _played_episodes(run_data, cell), cell.summary.greedy
        if cell.exact and greedy is not None and played.height == len(cell.samples):
            right, suggestions = greedy.mean(axis=0).tolist()
            means = played.select(pl.col("correct").mean() * 100, pl.col("turns").mean() - 1).row(0)
            names = (cell.model, cell.scenario, played["condition"][0])
            rows.append((*names, 100 * right, suggestions, *means, 100 * cell.unreadable))
    kinds = ("exact_acc", "exact_ps", "played_acc", "played_ps", "unreadable")
    schema = {**dict.fromkeys(COLUMNS[:3], pl.String), **dict.fromkeys(kinds, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _played_episodes(run_data: RunData, cell: OperatingCell) -> pl.DataFrame:
    """Return the scored episodes that asked the cell's questions about its samples in the published order."""
    source = run_data.conditions[cell.condition]
    conditions = [(name, c.identity) for name, c in run_data.conditions.items() if not c.every_state]
    played = [name for name, identity in conditions if {**identity, "every_state": True} == source.identity]
    return run_data.scored.select(COLUMNS).filter(
        pl.col("condition").is_in(played), pl.col("sample_id").is_in([sample.id for sample in cell.samples]),
        model=cell.model, scenario=cell.scenario, protocol="mcqa",
    )  # fmt: skip
