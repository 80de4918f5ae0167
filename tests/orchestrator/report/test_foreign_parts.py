"""Parts that stand in a run folder twice, or are of another sweep, or are none: results are those of a folder without them."""

from __future__ import annotations

import shutil

import polars as pl

from orchestrator.storage.episode_store import episodes
from tests.orchestrator.report.runs import played, sweep


def test_foreign_and_doubled_parts_change_no_result(demo_data, tmp_path):
    wanted = sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"], scenarios=["QD", "ROD"])
    whole, out = played(tmp_path / "whole", wanted), played(tmp_path / "run", wanted, only=40)
    for table in ("episodes", "turns"):
        source = next((out / table).glob("part-*.parquet"))
        shutil.copy(source, out / table / "part-00000901.parquet")
        foreign = pl.read_parquet(source).with_columns(key=pl.lit("other/") + pl.col("key"))
        if table == "episodes":
            foreign = foreign.with_columns(cell=pl.lit("other/") + pl.col("cell"), model=pl.lit("other"))
        foreign.write_parquet(out / table / "part-00000902.parquet")
        (out / table / "part-00000903.parquet").write_bytes(b"PAR1 no table PAR1")
    assert episodes(out).collect().height == 80, "forty of the sweep, each once, and forty of another"

    played(out, wanted)

    assert (out / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    assert episodes(out).collect()["key"].is_unique().all() and len(list((out / "damaged").iterdir())) == 2
