"""A run that has the published figures compares as equal; what is not comparable is listed with its reason instead."""

import io

import polars as pl
import pytest
from rich.console import Console

from envs import SCENARIOS
from envs.samples import paper_ids
from orchestrator.report.comparisons.paper_comparison import (
    compare_with_paper,
    comparison_notes,
    comparison_tables,
)
from orchestrator.report.paper.provenance import unfiltered_mismatches
from orchestrator.report.paper.published import published_figures
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import report_tables
from orchestrator.report.tables.console import rich_table
from orchestrator.report.tables.open_ended import open_ended_table
from orchestrator.storage.lock import RunFolderError
from tests.orchestrator.report.runs import known, played, replaced, sweep

MODEL, PAPER = "llava-ov-0.5b", "LLaVA-OV-0.5B"


@pytest.fixture(scope="module")
def equal(tmp_path_factory):
    """A run of one model over the ids of the paper, each cell with its published figures."""
    return compare_with_paper(
        read_run(known(tmp_path_factory.mktemp("known") / "run", [MODEL, "uniform"], sampling="checkpoint"))
    )


def test_known_figures_differ_by_rounding_alone_and_lie_inside(equal):
    mine = equal.filter(model=MODEL)

    assert mine["reason"].null_count() == mine.height == 8 * (2 + 2 + 1)
    assert mine["inside"].all() and mine["exact"].all()
    cells = mine.filter(pl.col("scenario") != "avg")
    rounding = pl.when(pl.col("measure") == "acc").then(100 / pl.col("planned")).otherwise(1 / pl.col("planned"))
    assert cells.filter(pl.col("difference").abs() > 0.5 * rounding + 1e-9).is_empty(), "no whole number comes closer"
    assert mine.filter(scenario="avg")["difference"].abs().max() < 0.2
    theirs = published_figures().filter(table="mcqa", paper=PAPER).select("scenario", "measure", "published")
    both = mine.filter(condition="zero-shot").join(theirs, on=["scenario", "measure"], suffix="_paper")
    assert both.height == 16
    assert both["published"].equals(both["published_paper"])


def test_what_prints_names_both_figures_and_what_cannot_be_checked(equal):
    console = Console(width=160, file=io.StringIO(), record=True)
    for one in comparison_tables(equal):
        console.print(rich_table(one))
    text = console.export_text()

    assert MODEL in text and "24.8" in text and "reference (mcqa)" in text
    assert all("(* more than rounding allows)" in table.title for table in comparison_tables(equal))
    told = comparison_notes(equal)
    assert told[0].startswith("hint (mcqa), acc: agrees with the paper; mean absolute difference 0.")
    assert "21 cells not compared (uniform): the model is not in the paper" in told
    assert any("cannot be checked" in line for line in told)


def test_several_turns_in_words_are_set_beside_table_10_with_what_of_it_is_our_reading(tmp_path):
    told = {"protocol": "oeg-multi", "judge": {"model": "rule-judge"}, "open_ended": {"sampling": "checkpoint"}}
    folder = known(tmp_path / "run", ["qwen2.5-vl-7b"], ("zero-shot", "hint"), most=100, **told)
    found = compare_with_paper(read_run(folder))
    ours, hint = found.filter(condition="zero-shot"), found.filter(condition="hint")
    rod = ours.filter(scenario="ROD", measure="acc")

    assert set(found["protocol"]) == {"oeg-multi"} and set(ours["measure"]) == {"acc", "ps"}
    assert ours["reason"].null_count() == ours.height == 8 * 2 and ours["inside"].all() and not ours["exact"].any()
    assert ours["difference"].abs().max() < 0.1
    assert rod["published"].item() == 1.1 and rod["ours"].item() == pytest.approx(100 / 88)
    assert (
        hint["reason"].str.contains("no table per model of hint (oeg-multi, filtered) is published", literal=True).all()
    )
    assert any("our reading" in line and "rule-judge/turns-1-" in line for line in comparison_notes(found))


def test_a_figure_outside_our_interval_is_marked(tmp_path):
    folder = known(tmp_path / "run", [MODEL], ("zero-shot",))
    from actors.playing.records import EpisodeBatch
    from orchestrator.storage.episode_store import EpisodeStore
    from orchestrator.storage.schemas import EPISODES, TURNS

    store = EpisodeStore(folder)
    rows = pl.read_parquet(folder / "episodes" / "*.parquet", schema=EPISODES)
    turns = pl.read_parquet(folder / "turns" / "*.parquet", schema=TURNS)
    store.close()
    for path in folder.glob("*/part-*.parquet"):
        path.unlink()
    all_right = rows.with_columns(pl.lit(True).alias("correct"), pl.lit("correct").alias("ending"))
    store = EpisodeStore(folder)
    store.append(EpisodeBatch([], all_right.to_dict(as_series=False), turns.to_dict(as_series=False)))
    store.close()
    found = compare_with_paper(read_run(folder)).filter(measure="acc")

    assert not found["inside"].any()
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(rich_table(next(comparison_tables(compare_with_paper(read_run(folder))))))
    assert "+75.2*" in console.export_text()


def test_the_demo_is_other_data_and_is_not_compared(demo_data, tmp_path):
    from actors.engine.baselines import Baseline

    wanted = sweep(demo_data, [MODEL], ["zero-shot", "reference"])
    folder = played(tmp_path / "run", wanted, backends={MODEL: Baseline("uniform")})
    found = compare_with_paper(read_run(folder))

    assert found["published"].null_count() == found.height > 0
    assert found["reason"].str.contains("demo benchmark").all()
    assert not list(comparison_tables(found))
    assert "14 cells not compared (llava-ov-0.5b): other data" in comparison_notes(found)[0]


@pytest.mark.parametrize(
    ("changes", "most", "said"),
    [
        ({"selection": {"limit": 20}}, 20, "a subset: 20 samples by the sweep's selection"),
        ({}, 30, f"a subset: 30 samples, and the published table is of {len(paper_ids()['ROD']):,}"),
        ({"selection": {"ids": {"ROD": [0, 1]}}}, None, "a subset"),
        ({"sampling": {"temperature": 0.7}}, None, "decoded otherwise than the paper: sampled at temperature 0.7"),
        ({"selection": {"filtered": False}}, None, "(mcqa, unfiltered) is published"),
    ],
)
def test_what_is_not_the_papers_setting_is_said(tmp_path, changes, most, said):
    found = compare_with_paper(read_run(known(tmp_path / "run", [MODEL], ("hint",), most=most, **changes)))
    rod = found.filter(scenario="ROD")

    assert rod["published"].null_count() == rod.height > 0
    assert rod["reason"].str.contains(said, literal=True).all()
    assert found.filter(scenario="avg")["published"].null_count() == 2, "an average is no better than its cells"


def test_the_unfiltered_run_is_set_beside_the_unfiltered_table(tmp_path):
    beyond = {"VSOD": 63 - 42, "QD": 17_909 - 7_557 - (63 - 42)}
    found = compare_with_paper(
        read_run(known(tmp_path / "run", [MODEL], ("zero-shot",), beyond=beyond, selection={"filtered": False}))
    )
    theirs = (
        published_figures()
        .filter(table="mcqa_unfiltered", paper=PAPER, scenario="QD", measure="acc")["published"]
        .item()
    )

    assert found.filter(scenario="QD", measure="acc")["published"].item() == theirs


def test_counts_of_another_unfiltered_set_are_said(tmp_path):
    """All seven: the sum must be the published one; VSOD alone: without its weak occlusions it has 63."""
    found = compare_with_paper(
        read_run(known(tmp_path / "run", [MODEL], ("zero-shot",), selection={"filtered": False}))
    )
    alone = unfiltered_mismatches({"VSOD": 90, "QD": 5})

    assert found["published"].null_count() == found.height
    assert found.filter(scenario="QD")["reason"].str.contains("7,557 samples without the filter, .* is of 17,909").all()
    assert found.filter(scenario="VSOD")["reason"].str.contains("42 samples without the filter, .* is of 63").all()
    assert set(alone) == {"VSOD"} and not unfiltered_mismatches({"VSOD": 63, "QD": 5})


def test_a_difference_in_decoding_is_named_and_following_the_checkpoint_is_none(tmp_path):
    greedy = compare_with_paper(read_run(known(tmp_path / "greedy", [MODEL], ("zero-shot",))))
    follows = compare_with_paper(read_run(known(tmp_path / "follows", [MODEL], ("zero-shot",), sampling="checkpoint")))

    for found in (greedy, follows):
        assert found["published"].null_count() == 0
    said = "decoding of mcqa differs: ours greedy, at most 50 new tokens; the package's as each checkpoint's"
    assert [line for line in comparison_notes(greedy) if line.startswith(said)]
    assert not [line for line in comparison_notes(follows) if "decoding" in line]


def test_conditions_and_models_without_a_published_table_are_said(tmp_path):
    found = compare_with_paper(read_run(known(tmp_path / "run", [MODEL, "gpt-5.2"], ("history", "reference"))))
    history, reference = found.filter(condition="history"), found.filter(model="gpt-5.2", condition="reference")

    assert history["reason"].str.contains("no table per model of history").all()
    assert reference["reason"].str.contains("has no row of GPT-5.2").all()


def test_an_unfinished_cell_is_not_compared_nor_its_average(demo_data, tmp_path):
    folder = known(tmp_path / "run", [MODEL], ("zero-shot",))
    plan = (folder / "plan.json").read_text()
    missing = sorted((folder / "episodes").glob("*.parquet"))[0]
    rows = pl.read_parquet(missing).filter((pl.col("scenario") != "ROD") | (pl.col("sample_id") < 40))
    replaced(rows, missing)
    found = compare_with_paper(read_run(folder))

    assert '"planned": 88' in plan
    assert found.filter(scenario="ROD")["reason"].str.contains("unfinished").all()
    assert found.filter(scenario="avg")["reason"].str.contains("not all seven").all()
    assert found.filter(scenario="QD")["published"].null_count() == 0


def test_foreign_ids_and_known_pictures_tell_other_data(tmp_path):
    folder = known(tmp_path / "run", [MODEL], ("zero-shot",))
    path = sorted((folder / "turns").glob("*.parquet"))[0]
    rows = pl.read_parquet(path)
    renamed = rows.with_columns(
        pl.when(pl.col("key") == f"{MODEL}/ROD/zero-shot/0000-known")
        .then(pl.lit("Realistic-Occlusion-Dataset/mine-s7.jpg"))
        .otherwise(pl.col("image"))
        .alias("image")
    )
    replaced(renamed, path)
    found = compare_with_paper(read_run(folder))

    assert found.filter(scenario="ROD")["reason"].str.contains("other data: sample 0 is").all()
    assert found.filter(scenario="avg")["reason"].str.contains("other data").all()


def test_a_folder_that_is_no_run_says_what_to_type(tmp_path):
    with pytest.raises(RunFolderError, match="proactive-sweep run"):
        compare_with_paper(read_run(tmp_path))


def test_open_ended_cells_are_set_beside_the_judged_tables(tmp_path):
    """Verdicts with the published shares, by one judge."""
    folder = known(tmp_path / "run", [MODEL, "idefics3-8b"], ("zero-shot", "hint"), most=100, protocol="oeg")
    found = compare_with_paper(read_run(folder))

    assert found["reason"].null_count() == found.height == 2 * 2 * 8 * 3
    assert found["difference"].abs().max() < 0.1
    assert found["inside"].all()
    assert "qwen3-8b/paper-00000000" in " ".join(comparison_notes(found))


def test_another_open_ended_subset_is_not_compared(tmp_path):
    found = compare_with_paper(
        read_run(known(tmp_path / "run", [MODEL], ("zero-shot",), most=60, protocol="oeg"))
    ).filter(scenario="QD")

    assert found["reason"].str.contains("another subset: 60 samples").all()


@pytest.mark.parametrize(
    "changes",
    [
        {"selection": {"subset": "all", "limit": 100}}, {"selection": {"subset": "open-ended", "limit": 100}},
        {"sampling": {"temperature": 0.0, "max_tokens": 4096}}, {"sampling": {"temperature": 1.0, "max_tokens": 10}},
    ],
)  # fmt: skip
def test_other_samples_or_decoding_of_answers_are_not_compared_even_if_they_are_as_many(changes, tmp_path):
    found = compare_with_paper(
        read_run(known(tmp_path / "run", [MODEL], ("hint",), most=100, protocol="oeg", open_ended=changes))
    )
    why = "another subset" if "selection" in changes else "answered otherwise than in the paper"

    assert found["published"].null_count() == found.height > 0
    assert found["reason"].str.contains(why).all()


def test_what_the_judge_has_not_read_is_not_compared_nor_its_average_nor_shown_as_finished(tmp_path):
    folder = known(tmp_path / "run", [MODEL], ("zero-shot",), most=100, protocol="oeg")
    (part,) = (folder / "verdicts").glob("*.parquet")
    replaced(pl.read_parquet(part).filter(pl.col("sample_id") % 5 == 0), part)
    found = compare_with_paper(read_run(folder))

    assert found["published"].null_count() == found.height > 0
    assert found.filter(pl.col("scenario") != "avg")["reason"].str.contains("answers not judged yet").all()
    assert found.filter(scenario="avg")["reason"].str.contains("not all seven").all()
    run_data = read_run(folder)
    ((_, *entries),) = open_ended_table(run_data).rows
    assert all(entry.style == "unfinished" for entry in entries)


def spoiled(folder, ending: str, scenario: str, every: int):
    """The run folder with every so many episodes of a scenario without an answer."""
    (part,) = (folder / "episodes").glob("*.parquet")
    rows = pl.read_parquet(part)
    hit = (pl.col("scenario") == scenario) & (pl.col("sample_id") % every == 0)
    changed = {"ending": pl.lit(ending), "error": pl.lit("lost"), "correct": pl.lit(False)}
    replaced(rows.with_columns(pl.when(hit).then(to).otherwise(name).alias(name) for name, to in changed.items()), part)
    return folder


def test_episodes_that_the_harness_lost_are_missing_from_cell_average_and_table(tmp_path):
    folder = spoiled(known(tmp_path / "run", [MODEL], ("zero-shot",)), "failed", "QD", 2)
    found = compare_with_paper(read_run(folder))

    assert found.filter(scenario="QD")["reason"].str.contains("episodes failed here").all()
    assert found.filter(scenario="avg")["published"].null_count() == 2
    assert found.filter(scenario="ROD")["published"].null_count() == 0
    grid = next(one for one in report_tables(read_run(folder)) if one.name == "main")
    ((_, *cells),) = grid.rows
    assert [cell.style == "unfinished" for cell in cells] == [
        column.name in ("QD", "avg") for column in grid.columns[1:]
    ]


def test_what_the_package_counts_as_wrong_and_we_as_no_answer_is_said(tmp_path):
    folder = spoiled(known(tmp_path / "run", [MODEL], ("zero-shot",)), "unprocessable", "COCO", 10)
    found = compare_with_paper(read_run(folder))
    row = found.row(by_predicate=(pl.col("scenario") == "COCO") & (pl.col("measure") == "acc"), named=True)
    (told,) = [line for line in comparison_notes(found) if "without an answer" in line]

    right = row["ours"] * (row["finished"] - row["errors"])
    assert row["errors"] > 50 and row["published"] is not None
    assert told.startswith(f"{MODEL}/COCO/zero-shot: {row['errors']} of 1,240 episodes without an answer")
    assert told.endswith(f"acc is {right / row['finished']:.1f}") and right / row["finished"] < row["ours"]


def planted(folder, scenario: str) -> int:
    """Turn 2% of a scenario's episodes, all of them wrong so far, into right ones; how many they are."""
    (part,) = (folder / "episodes").glob("*.parquet")
    rows = pl.read_parquet(part)
    wrong = rows.filter(~pl.col("correct"), scenario=scenario)
    keys = wrong["key"].head(max(1, round(0.02 * rows.filter(scenario=scenario).height))).to_list()
    hit = pl.col("key").is_in(keys)
    right = {"correct": pl.lit(True), "ending": pl.lit("correct")}
    replaced(rows.with_columns(pl.when(hit).then(to).otherwise(name).alias(name) for name, to in right.items()), part)
    return len(keys)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_planted_points_are_flagged_in_the_scenario_and_nowhere_else(tmp_path, scenario):
    folder = known(tmp_path / "run", [MODEL], ("hint",), sampling="checkpoint")
    count = planted(folder, scenario)
    found = compare_with_paper(read_run(folder)).filter(pl.col("scenario") != "avg", measure="acc")

    assert found.filter(~pl.col("inside"))["scenario"].to_list() == [scenario]
    flagged = found.row(by_predicate=pl.col("scenario") == scenario, named=True)
    assert 0 < flagged["episodes"] <= count


def test_what_is_decoded_otherwise_than_the_package_is_held_to_its_interval(tmp_path):
    """Greedy replies need not end as sampled ones did: two points on the 42 samples of VSOD say nothing then."""
    folder = known(tmp_path / "run", [MODEL], ("hint",))
    planted(folder, "VSOD")
    found = compare_with_paper(read_run(folder))
    figure = found.row(by_predicate=(pl.col("scenario") == "VSOD") & (pl.col("measure") == "acc"), named=True)

    assert not found["exact"].any() and found["episodes"].null_count() == found.height
    assert found["inside"].all() and figure["difference"] > 2.0
    assert figure["low"] <= figure["published"] <= figure["high"]
    assert "hint (mcqa), acc: agrees with the paper" in comparison_notes(found)[0]
