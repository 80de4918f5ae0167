"""Two folders of one plan become one: every episode once, as played whole; answers that differ are named, never chosen."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from orchestrator.cli.main import app
from orchestrator.execution.results import score_folder
from orchestrator.merging.answers import write_episodes
from orchestrator.merging.merge import merge
from orchestrator.planning.build_plan import build_plan, stored_episodes
from orchestrator.report.measures.decision_map import DecisionInputs, add_decisions
from orchestrator.report.scores.metrics import write_results
from orchestrator.storage import checksums, lock
from orchestrator.storage.episode_store import EpisodeStore, episodes, turns
from orchestrator.storage.lock import RunFolderError
from orchestrator.storage.run_folder import planned_keys
from orchestrator.storage.status import read_status
from orchestrator.storage.verdict_store import verdicts
from tests.orchestrator.report.runs import heard, played, replaced, sweep
from tests.orchestrator.storage.test_episode_store import sound

SCENARIOS = ["ROD", "QD"]


@pytest.fixture
def wanted(demo_data):
    return sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"], scenarios=SCENARIOS)


def rows(folder):
    return episodes(folder).drop("seconds").collect().sort("key"), turns(folder).collect().sort("key", "turn")


def change(folder, key: str, **to) -> None:
    """Give a stored episode other values, as another answer would."""
    for part in (folder / "episodes").glob("*.parquet"):
        found = pl.read_parquet(part)
        other = [
            pl.when(pl.col("key") == key).then(pl.lit(value)).otherwise(name).alias(name) for name, value in to.items()
        ]
        replaced(found.with_columns(other), part)


def test_parts_and_overlaps_become_what_one_run_is(wanted, tmp_path):
    whole = played(tmp_path / "whole", wanted)
    one = played(tmp_path / "one", wanted, only=50)
    two = played(tmp_path / "two", wanted)
    keys = [row[0] for row in episodes(two).select("key").collect().sort("key").iter_rows()]
    change(two, keys[0], ending="failed", correct=None)
    into = tmp_path / "into"
    found = merge([one, two], into)

    kept = episodes(into).collect()
    assert kept["key"].is_unique().all() and kept.height == found.taken[str(one)] + found.taken[str(two)] == 80
    assert found.taken[str(one)] == 50 and found.gave_way == 1 and not found.pending and not found.conflicts
    assert all(one.equals(other) for one, other in zip(rows(into), rows(whole), strict=True))
    assert (into / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    assert planned_keys(into).collect().equals(planned_keys(whole).collect())
    assert checksums.damaged_files(into) == [] and read_status(into)["damaged"] == []
    assert {cell["state"] for cell in read_status(into)["cells"]} == {"complete"}
    played(into, wanted)  # goes on as any run folder does: nothing is pending
    assert episodes(into).select(pl.len()).collect().item() == 80


@pytest.mark.parametrize("there", [False, True], ids=["new", "made before"])
def test_a_driver_that_begins_meanwhile_stops_the_merge(wanted, tmp_path, monkeypatch, there):
    """It takes back half of what the merge has read, and with them their turns."""
    one, two = played(tmp_path / "one", wanted, only=50), played(tmp_path / "two", wanted)
    into = tmp_path / "into"
    if there:
        into.mkdir()

    def write(store, sources):
        driver = EpisodeStore(two)
        driver.discard(episodes(two).select("key").collect()["key"].to_list()[::2])
        driver.close()
        write_episodes(store, sources)
        assert sound(store.folder)

    monkeypatch.setattr("orchestrator.merging.merge.write_episodes", write)
    with pytest.raises(RunFolderError, match=f"{two} is being written; wait for its driver, or stop it"):
        merge([one, two], into)
    assert into.exists() is there and lock.holder(into) is None


def test_folders_of_other_models_become_one_of_all(demo_data, tmp_path):
    apart = [
        played(tmp_path / model, sweep(demo_data, [model], ["hint"], scenarios=SCENARIOS))
        for model in ("oracle", "guess")
    ]
    both = sweep(demo_data, ["oracle", "guess"], ["hint"], scenarios=SCENARIOS)
    merge(apart, tmp_path / "into")

    assert played(tmp_path / "into", both) == tmp_path / "into", "it is a run of the sweep that names both"
    assert (tmp_path / "into" / "results.json").read_bytes() == (
        played(tmp_path / "both", both) / "results.json"
    ).read_bytes()


def test_answers_that_differ_are_named_and_nothing_is_written_until_somebody_says(wanted, tmp_path):
    one, two = (played(tmp_path / name, wanted) for name in ("one", "two"))
    keys = episodes(two).select("key").collect()["key"].sort().to_list()
    change(two, keys[3], ending="limit")
    for part in (two / "turns").glob("*.parquet"):
        found = pl.read_parquet(part)
        replaced(
            found.with_columns(reply=pl.when(pl.col("key") == keys[5]).then(pl.lit("else")).otherwise("reply")), part
        )
    into = tmp_path / "into"

    with pytest.raises(RunFolderError) as refused:
        merge([one, two], into)
    assert all(text in str(refused.value) for text in ("2 episodes", keys[3], keys[5], "--prefer", str(one)))
    assert not into.exists()
    for place, prefer in ((tmp_path / "a", one), (tmp_path / "b", two)):
        merge([one, two], place, str(prefer))
        assert all(mine.equals(theirs) for mine, theirs in zip(rows(place), rows(prefer), strict=True))
        (conflict,) = json.loads((place / "merged.json").read_bytes())["conflicts"]
        assert (conflict["taken"], conflict["keys"]) == (str(prefer), [keys[3], keys[5]])


@pytest.mark.parametrize(
    ("more", "said"), [({"seed": 4}, "seed was 0, there it is 4"), ({"selection": {"limit": 3}}, "limit")]
)
def test_other_configurations_are_refused(demo_data, wanted, tmp_path, more, said):
    one = played(tmp_path / "one", wanted, only=4)
    two = played(
        tmp_path / "two",
        sweep(demo_data, ["oracle", "uniform"], ["zero-shot", "hint"], scenarios=SCENARIOS, **more),
        only=4,
    )
    with pytest.raises(RunFolderError, match=said):
        merge([one, two], tmp_path / "into")


def test_what_is_no_merge_is_one_sentence(wanted, tmp_path):
    one = played(tmp_path / "one", wanted, only=4)
    two = shutil.copytree(one, tmp_path / "two")
    (two / ".lock").unlink(missing_ok=True)
    run = CliRunner()

    for arguments, said in (
        ([one, "--into", tmp_path / "x"], "merge needs two or more folders"),
        ([one, one, "--into", tmp_path / "x"], "named twice"),
        ([one, two, "--into", two], "has a run already"),
        ([one, two, "--into", tmp_path / "x", "--prefer", "y"], "none of the merged folders"),
        ([one, tmp_path / "none", "--into", tmp_path / "x"], "holds no run"),
    ):
        found = run.invoke(app, ["merge", *map(str, arguments)])
        assert found.exit_code == 2 and said in found.output.replace("\n", " "), found.output
    with lock.hold(two, "driver"), pytest.raises(RunFolderError, match="is being written"):
        merge([one, two], tmp_path / "x")
    assert not (tmp_path / "x" / "episodes").exists()
    done = run.invoke(app, ["merge", str(one), str(two), "--into", str(tmp_path / "x")])
    assert (done.exit_code, done.output.splitlines()[0]) == (0, f"4 episodes from {one}")


def test_verdicts_go_with_the_answers_that_are_taken(demo_data, tmp_path):
    more = {"protocol": ["oeg"], "judge": {"model": "rule-judge"}, "scenarios": SCENARIOS}
    wanted = sweep(demo_data, ["ask-properly", "guess-aloud"], ["zero-shot"], **more)
    whole, one, two = (
        played(tmp_path / name, wanted, only=only) for name, only in (("w", None), ("1", 24), ("2", None))
    )
    for folder in (whole, one):
        heard(folder, wanted, wanted.judge, Baseline("rule-judge"))
    heard(two, wanted, wanted.judge, Baseline("rule-judge"))
    merge([one, two], tmp_path / "into")
    columns = ["key", "judge", "category", "suggestion", "aggregate", "reason"]
    kept = verdicts(tmp_path / "into").select(columns).collect().sort("key")

    assert kept.height == 40 and kept.equals(verdicts(whole).select(columns).collect().sort("key"))
    (part,) = (two / "verdicts").glob("*.parquet")
    changed = pl.read_parquet(part)
    replaced(changed.with_columns(pl.lit(True).alias("category"), pl.lit(False).alias("suggestion")), part)
    with pytest.raises(RunFolderError, match=r"24 verdicts of .*--prefer"):
        merge([one, two], tmp_path / "other")


def test_replicates_and_decision_maps_stay_in_the_results(demo_data, tmp_path):
    more = {"scenarios": SCENARIOS, "replicates": 2}
    wanted = sweep(demo_data, ["oracle", "guess"], ["zero-shot", "every-frame"], **more)
    parts = [played(tmp_path / "one", wanted, only=70), played(tmp_path / "two", wanted)]
    merge(parts, tmp_path / "into")
    plan, whole = build_plan(wanted), tmp_path / "two"
    stored = DecisionInputs(
        stored_episodes(plan, whole), turns(whole), {one.name: one for one in wanted.conditions}, plan.samples_by_id
    )
    write_results(whole, add_decisions(score_folder(plan, whole, ""), stored))

    assert (tmp_path / "into/results.json").read_bytes() == (whole / "results.json").read_bytes()
    cells = json.loads((whole / "results.json").read_bytes())
    assert len(cells) == len(plan.cells) and sum(row["planned"] for row in cells) == plan.total
    assert {row["condition"] for row in cells if row["decision_map"]} == {"every-frame"}
    assert any(row["regret"] is not None for row in cells)
