"""Duplicate, foreign and unreadable parts in a run folder change no result, with or without a list of sums."""

from __future__ import annotations

import shutil

import polars as pl
import pytest

from orchestrator.storage import checksums
from orchestrator.storage.episode_store import episodes
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.mark.parametrize("is_listed", [True, False])
def test_foreign_and_doubled_parts_change_no_result(demo_data, tmp_path, is_listed):
    wanted = sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"], scenarios=["QD", "ROD"])
    full_run, out = play_sweep(tmp_path / "whole", wanted), play_sweep(tmp_path / "run", wanted, only=40)
    for table in ("episodes", "turns"):
        source = next((out / table).glob("part-*.parquet"))
        shutil.copy(source, out / table / "part-00000901.parquet")
        foreign = pl.read_parquet(source).with_columns(key=pl.lit("other/") + pl.col("key"))
        if table == "episodes":
            foreign = foreign.with_columns(cell=pl.lit("other/") + pl.col("cell"), model=pl.lit("other"))
        foreign.write_parquet(out / table / "part-00000902.parquet")
        (out / table / "part-00000903.parquet").write_bytes(b"PAR1 no table PAR1")
    if not is_listed:
        (out / checksums.NAME).unlink()
    counted = 40 if is_listed else 80
    assert episodes(out).collect().height == counted, "forty of the sweep, each once; unlisted, and forty of another"

    play_sweep(out, wanted)

    assert (out / "results.json").read_bytes() == (full_run / "results.json").read_bytes()
    assert episodes(out).collect()["key"].is_unique().all()
    assert len(list((out / "damaged").iterdir())) == (6 if is_listed else 2)
