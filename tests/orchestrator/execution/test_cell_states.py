"""States of cells, exit codes, counts of stored episodes, and whether a judge counts as reading, row by row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from orchestrator.execution.results import AttemptOutcome, _judge_reads, cell_states, count_stored


def row(finished: int, failed: int = 0, **changed: Any) -> dict[str, Any]:
    names = {"cell": "m/ROD/hint", "model": "m", "condition": "hint", "protocol": "mcqa"}
    return {**names, "planned": 5, "finished": finished, "errors": 1, "failed": failed, "other": 7, **changed}


@pytest.mark.parametrize(
    ("cell", "reasons", "state", "reason"),
    [
        (row(5), {}, "complete", ""),
        (row(5), {"m": "key refused"}, "complete", ""),
        (row(5, failed=2), {}, "failed", ""),
        (row(3), {}, "partial", ""),
        (row(0), {}, "waiting", ""),
        (row(3), {"m": "key refused"}, "failed", "key refused"),
        (row(0), {"m/*/hint": "refused all"}, "failed", "refused all"),
        (row(0), {"m/*/zero-shot": "refused all", "other": "gone"}, "waiting", ""),
        (row(0), {"m": "key refused", "m/*/hint": "refused all"}, "failed", "key refused"),
        (row(0, protocol="oeg"), {"m/*/hint-oeg": "refused all"}, "failed", "refused all"),
        (row(0, protocol="oeg"), {"m/*/hint": "refused all"}, "waiting", ""),
    ],
)
def test_a_cell_is_failed_where_its_requests_have_stopped(
    cell: dict[str, Any], reasons: dict[str, str], state: str, reason: str
) -> None:
    assert cell_states(pl.DataFrame([cell]), reasons) == [{
        "cell": "m/ROD/hint", "planned": 5, "finished": cell["finished"], "errors": 1, "state": state, "reason": reason,
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("complete", "interrupted", "lost", "code"),
    [
        (True, False, False, 0), (False, False, False, 1), (False, True, False, 130), (True, True, False, 130),
        (False, True, True, 1), (True, True, True, 0),
    ],
)  # fmt: skip
def test_exit_codes(complete: bool, interrupted: bool, lost: bool, code: int) -> None:
    outcome = AttemptOutcome(pl.DataFrame(), complete, interrupted, {}, cluster_lost=lost)

    assert outcome.exit_code == code and outcome.seconds == 0.0
    assert AttemptOutcome(pl.DataFrame(), True, False, {}).cluster_lost is False


@pytest.mark.parametrize(
    ("judged", "unjudged", "reads"),
    [(0, 0, True), (0, 1, False), (1, 19, True), (4, 96, False), (5, 95, True), (4, 95, True)],
)
def test_a_judge_reads_if_it_has_verdicts_on_five_percent(judged: int, unjudged: int, reads: bool) -> None:
    rows = pl.DataFrame({"judged": [judged, 0], "unjudged": [0, unjudged]})

    assert _judge_reads(rows) is reads


def test_stored_episodes_are_those_that_are_not_pending() -> None:
    cells = [SimpleNamespace(key="a"), SimpleNamespace(key="b")]
    plan = SimpleNamespace(cells=cells, size=lambda index: (10, 4)[index], pending_per_cell=lambda pending: [3, 4])

    assert count_stored(plan, {}) == {"a": 7, "b": 0}  # type: ignore[arg-type]
