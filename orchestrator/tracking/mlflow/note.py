"""The description of a sweep's run on MLflow's page."""

from __future__ import annotations

SWEEP_NOTE = """The sweep **SWEEP** on ProactiveBench: models see pictures that do not show enough, and may ask for more.

- **Nested runs**: one per model, and below each model one per cell (scenario and condition). This row is the mean over models;
  baselines (parameter `kind`) are not part of any mean. `best_acc` and the tag `best_model` name the best model.
- **Saved views** (*Models*, *Sweeps side by side*, *Cells*) are tables and charts of these runs.
- **Metrics**: `acc`, percent correct under the condition in the parameter `condition`, mean over scenarios; `ps`, proactive
  suggestions per episode; `loops`, percent of episodes that ask until the limit; `acc/SCENARIO`; `acc_under/CONDITION`; for a
  cell also `acc_low` and `acc_high`, its 95% interval. Episodes with errors never count as zeros in `acc`.
- **Over time**: all of these while episodes finish; for the sweep also `episodes_done`, `episodes_per_second` and, under
  *System metrics*, processor, memory and GPUs of every node.
- **Artifacts** and **Traces**: tables, figures, `report.html` and a seeded sample of episodes turn by turn, after
  `proactive-sweep track FOLDER`. That command rebuilds everything here from the run folder, which is the source.
"""


def sweep_note(sweep: str, folder: str) -> str:
    """Return the note of a sweep whose run folder has this name."""
    return SWEEP_NOTE.replace("FOLDER", folder).replace("SWEEP", sweep)
