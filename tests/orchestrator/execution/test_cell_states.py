"""States of cells, exit codes, counts of stored episodes, and whether a judge counts as reading, row by row."""

from __future__ import annotations

import polars as pl
import pytest

from orchestrator.execution.score import AttemptOutcome
from orchestrator.storage.control_log import ControlState
from orchestrator.storage.status import mark_cells


@pytest.mark.parametrize(
    ("finished", "condition", "reasons", "state", "reason"),
    [
        (3, "hint", {}, "complete", ""),
        (3, "hint", {"m": "key refused"}, "complete", ""),
        (2, "hint", {}, "partial", ""),
        (2, "hint", {"m": "key refused"}, "failed", "key refused"),
        (0, "hint", {"m/*/hint": "refused all"}, "failed", "refused all"),
        (0, "hint", {"m/*/zero-shot": "refused all", "other": "gone", "m/*/hint-oeg": "gone"}, "waiting", ""),
        (0, "hint", {"m": "key refused", "m/*/hint": "refused all"}, "failed", "key refused"),
        (0, "hint-oeg", {"m/*/hint-oeg": "refused all"}, "failed", "refused all"),
    ],
)
def test_a_cell_is_failed_where_its_requests_have_stopped(
    finished: int, condition: str, reasons: dict[str, str], state: str, reason: str
) -> None:
    cell = f"m/QD/{condition}"
    row = {"cell": cell, "planned": 3, "finished": finished, "errors": 0, "failed": 0}

    assert mark_cells([row], ControlState(), reasons) == [{
        "cell": cell, "planned": 3, "finished": finished, "errors": 0, "state": state, "reason": reason,
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("complete", "interrupted", "code"), [(True, False, 0), (False, False, 1), (False, True, 130), (True, True, 130)]
)
def test_exit_codes(complete: bool, interrupted: bool, code: int) -> None:
    assert AttemptOutcome(pl.DataFrame(), complete, interrupted, {}).exit_code == code
