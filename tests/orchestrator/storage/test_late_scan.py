"""A late scan over files that are merged before it is collected reads their replacements."""

import polars as pl

from orchestrator.storage.part_files import scan_table

SCHEMA = pl.Schema({"key": pl.String, "n": pl.Int64})


def part(path, *numbers):
    pl.DataFrame({"key": [f"k{n}" for n in numbers], "n": list(numbers)}, schema=SCHEMA).write_parquet(path)
    return path


def disappearing_scan(folder, times):
    """Return a scan of a folder whose part disappears ``times`` times between listing and reading."""
    listed = []

    def scan():
        for path in folder.glob("*.parquet"):
            frame = pl.scan_parquet(path)
        listed.append(path)
        if len(listed) <= times:
            path.unlink()
            part(folder / f"part-{len(listed)}.parquet", 1, 2, 3)
        return frame

    part(folder / "part-0.parquet", 1, 2)
    return scan, listed


def test_merged_parts_are_read_from_their_replacement(tmp_path):
    scan, listed = disappearing_scan(tmp_path, 2)
    frame = scan_table(tmp_path, "episodes", SCHEMA, lambda files: scan())

    assert listed == [] and frame.collect_schema() == SCHEMA
    assert frame.filter(pl.col("n") > 1).select("key").collect()["key"].to_list() == ["k2", "k3"]
    assert len(listed) == 3
