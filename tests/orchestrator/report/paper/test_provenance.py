"""Data that are not the published ones, or not all of them, are named with a reason per scenario."""

import polars as pl
import pytest

from envs import SCENARIOS
from orchestrator.report.paper.published import foreign_scenarios, subset_scenarios
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.answer import DEMO_CATEGORIES
from tests.orchestrator.report.runs import replace_part, write_published_run

MODEL = "llava-ov-0.5b"


def run(folder, most=3, **more):
    return write_published_run(folder, [MODEL], ("zero-shot",), most=most, **more)


def with_pictures(folder, scenario, name):
    """The run folder with another picture of every turn of a scenario."""
    for part in (folder / "turns").glob("*.parquet"):
        turns = pl.read_parquet(part)
        here = pl.col("key").str.contains(f"/{scenario}/", literal=True)
        replace_part(turns.with_columns(pl.when(here).then(pl.lit(name)).otherwise("image").alias("image")), part)
    return folder


def with_samples(folder, scenario, add):
    """The run folder with other sample ids of a scenario."""
    for part in (folder / "episodes").glob("*.parquet"):
        other = pl.when(scenario=scenario).then(pl.col("sample_id") + add).otherwise("sample_id").cast(pl.Int64)
        replace_part(pl.read_parquet(part).with_columns(other.alias("sample_id")), part)
    return folder


def test_published_data_are_not_foreign(tmp_path):
    assert foreign_scenarios(read_run(run(tmp_path / "run"))) == {}


@pytest.mark.parametrize(
    ("scenario", "picture"), [("ROD", "Realistic-Occlusion-Dataset/rod_1/{}/1.jpg"), ("MVP-N", "MVP-N/a/b/{}_3/1.jpg")]
)
def test_the_demo_benchmark_is_known_by_the_categories_of_its_pictures(tmp_path, scenario, picture):
    reason = "other data: the pictures are the demo benchmark's, not the published ones"
    folder = with_pictures(run(tmp_path / "run"), scenario, picture.format(f"_{min(DEMO_CATEGORIES).upper()}"))
    assert foreign_scenarios(read_run(folder)) == dict.fromkeys(SCENARIOS, reason)

    folder = with_pictures(folder, scenario, picture.format("something else"))
    assert foreign_scenarios(read_run(folder)) == {}


def test_ids_that_the_filter_drops_are_foreign(tmp_path):
    folder = with_samples(run(tmp_path / "run"), "QD", 1_000_000)

    assert foreign_scenarios(read_run(folder)) == {
        "QD": "other data: 3 samples with ids that the published filter does not keep"
    }
    everything = with_samples(run(tmp_path / "all", selection={"filtered": False}), "QD", 1_000_000)
    assert foreign_scenarios(read_run(everything)) == {}, "without the filter an id says nothing"


def test_a_scenario_of_a_package_is_not_the_papers(tmp_path):
    folder = run(tmp_path / "run")
    for name in ("plan.json", "sums.sha256"):
        path = folder / name
        path.write_text(path.read_text().replace('"CIT"', '"OWN"') if name == "plan.json" else "")

    assert foreign_scenarios(read_run(folder)) == {
        "OWN": "not a scenario of the paper: an installed package provides it"
    }
    assert "OWN" not in subset_scenarios(read_run(folder))
