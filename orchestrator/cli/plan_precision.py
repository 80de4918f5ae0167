"""``plan``: leave out the episodes that a rule of precision has stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.planning.plan import Plan
    from sweeps.spec import Sweep


def apply_precision(sweep: Sweep, plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan without the episodes after a stop by precision, and lines that explain the stops."""
    if sweep.precision is None:
        return plan, []
    from orchestrator.planning.build_plan import planned_cells
    from orchestrator.precision.stopping import load_rule
    from orchestrator.report.scores.precision_stops import describe_planned_savings, describe_savings

    stopped_plan = plan.with_stops(load_rule(plan, Path(sweep.output)).stops())
    rule = sweep.precision
    savings = describe_savings(rule, planned_cells(stopped_plan))
    lines = [*savings, *describe_planned_savings(rule, plan.cells, plan.sizes)]
    return stopped_plan, lines
