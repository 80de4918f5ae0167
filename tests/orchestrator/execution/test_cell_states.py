"""States of cells, exit codes, counts of stored episodes, and whether a judge counts as reading, row by row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from orchestrator.execution.score import AttemptOutcome
from orchestrator.storage.control_log import ControlState
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.run_folder import write_plan
from orchestrator.storage.status import count_cells
from tests.orchestrator.blocks import block, episode


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
    tmp_path: Path, finished: int, condition: str, reasons: dict[str, str], state: str, reason: str
) -> None:
    cell = f"m/QD/{condition}"
    names = {"cell": cell, "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa"}
    write_plan(tmp_path, pl.DataFrame([{**names, "planned": 3}]))
    store = EpisodeStore(tmp_path)
    store.append(block([episode(number, cell=cell) for number in range(finished)]))
    store.flush()

    assert count_cells(tmp_path, ControlState(), reasons) == [{
        "cell": cell, "planned": 3, "finished": finished, "errors": 0, "state": state, "reason": reason,
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("complete", "interrupted", "code"), [(True, False, 0), (False, False, 1), (False, True, 130), (True, True, 130)]
)
def test_exit_codes(complete: bool, interrupted: bool, code: int) -> None:
    assert AttemptOutcome(pl.DataFrame(), complete, interrupted, {}).exit_code == code
