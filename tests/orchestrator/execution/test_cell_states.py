"""States of cells, exit codes, counts of stored episodes, and whether a judge counts as reading, row by row."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from orchestrator.execution.score import AttemptOutcome, cell_states


def row(finished: int, failed: int = 0, **changed: Any) -> dict[str, Any]:
    names = {"cell": "m/ROD/hint", "model": "m", "condition": "hint", "protocol": "mcqa"}
    return {**names, "planned": 5, "finished": finished, "errors": 1, "failed": failed, "other": 7, **changed}


@pytest.mark.parametrize(
    ("cell", "reasons", "state", "reason"),
    [
        (row(5), {}, "complete", ""),
        (row(5), {"m": "key refused"}, "complete", ""),
        (row(3), {}, "partial", ""),
        (row(3), {"m": "key refused"}, "failed", "key refused"),
        (row(0), {"m/*/hint": "refused all"}, "failed", "refused all"),
        (row(0), {"m/*/zero-shot": "refused all", "other": "gone"}, "waiting", ""),
        (row(0), {"m": "key refused", "m/*/hint": "refused all"}, "failed", "key refused"),
        (row(0, protocol="oeg"), {"m/*/hint-oeg": "refused all"}, "failed", "refused all"),
    ],
)
def test_a_cell_is_failed_where_its_requests_have_stopped(
    cell: dict[str, Any], reasons: dict[str, str], state: str, reason: str
) -> None:
    assert cell_states(pl.DataFrame([cell]), reasons) == [{
        "cell": "m/ROD/hint", "planned": 5, "finished": cell["finished"], "errors": 1, "state": state, "reason": reason,
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("complete", "interrupted", "code"), [(True, False, 0), (False, False, 1), (False, True, 130), (True, True, 130)]
)
def test_exit_codes(complete: bool, interrupted: bool, code: int) -> None:
    assert AttemptOutcome(pl.DataFrame(), complete, interrupted, {}).exit_code == code
