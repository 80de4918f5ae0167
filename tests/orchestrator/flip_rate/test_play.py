"""The repeats of a run are played one after the other up to an interrupted one; the worst exit code counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from orchestrator.execution.results import AttemptOutcome
from orchestrator.flip_rate import flip_rate

ENDS = {"complete": (True, False), "incomplete": (False, False), "interrupted": (False, True)}


@pytest.mark.parametrize(
    ("ends", "played", "code"),
    [
        (["complete", "complete"], 2, 0), (["incomplete", "complete"], 2, 1), (["complete", "incomplete"], 2, 1),
        (["interrupted", "incomplete", "complete"], 1, 130), (["complete", "interrupted", "complete"], 2, 130),
    ],
)  # fmt: skip
def test_an_interrupt_ends_them_all_and_a_gap_does_not(
    monkeypatch: pytest.MonkeyPatch, ends: list[str], played: int, code: int
) -> None:
    folders: list[Path] = []

    def run(sweep: SimpleNamespace, output: Path, say: object) -> AttemptOutcome:
        folders.append(output)
        return AttemptOutcome(pl.DataFrame(), *ENDS[ends[len(folders) - 1]], {})

    settings = [
        (SimpleNamespace(name=f"batch-{number}"), SimpleNamespace(output=f"out/{number}"))
        for number in range(len(ends))
    ]
    lines: list[str] = []
    monkeypatch.setattr(flip_rate, "run", run)
    outcome = flip_rate.play(SimpleNamespace(sweeps=lambda: iter(settings)), lines.append)  # type: ignore[arg-type]

    assert outcome.exit_code == code and folders == [Path(f"out/{number}") for number in range(played)]
    assert lines == [f"batch-{number}: playing into out/{number}" for number in range(played)]
