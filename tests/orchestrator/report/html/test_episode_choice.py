"""Which episodes a page holds, in which order, and what it says about those that it leaves out."""

import polars as pl

from orchestrator.report.html import episode_browser
from orchestrator.report.html.episode_browser import sample_episodes
from orchestrator.report.html.episode_view import EpisodeViews
from orchestrator.report.html.thumbnails import Thumbnails
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

ROWS = [
    ("ROD", "mcqa", 1, "a", "correct"), ("ROD", "mcqa", 1, "b", "gave up"), ("ROD", "mcqa", 2, "a", "correct"),
    ("ROD", "mcqa", 3, "a", "gave up"), ("QD", "mcqa", 1, "a", "correct"), ("QD", "tools", 1, "a", "correct"),
]  # fmt: skip


def ending_rows(rows=ROWS):
    names = ("scenario", "protocol", "sample_id", "model", "kind")
    frame = pl.DataFrame(rows, schema=names, orient="row")
    cell = pl.concat_str(pl.col("model"), pl.col("scenario"), pl.col("protocol"), separator="/")
    return frame.with_columns(cell.alias("cell"), key=pl.concat_str(cell, pl.lit("/"), pl.col("sample_id")))


def test_samples_of_most_cells_come_first_then_the_other_endings():
    keys = sample_episodes(ending_rows(), 9, 0)

    assert keys[:4] == ["a/QD/mcqa/1", "a/QD/tools/1", "a/ROD/mcqa/1", "b/ROD/mcqa/1"], "a sample of each scenario"
    assert keys[4] == "a/ROD/mcqa/3", "the only ending of a cell that is not present yet"
    assert keys[5:] == ["a/ROD/mcqa/2"] and sample_episodes(ending_rows(), 3, 0) == keys[:3]


def test_linked_episodes_come_before_all_others():
    keys = sample_episodes(ending_rows(), 9, 0, ["a/ROD/mcqa/2"])

    assert keys[0] == "a/ROD/mcqa/2" and len(keys) == len(set(keys)) == 6
    assert sample_episodes(ending_rows().clear(), 9, 0) == [] == sample_episodes(ending_rows(), 0, 0)


def test_one_episode_of_every_absent_ending_is_drawn():
    rows = [
        ("ROD", "mcqa", number, "a", kind)
        for kind, numbers in (("x", range(5)), ("y", range(5, 9)))
        for number in numbers
    ]
    endings = ending_rows(rows)

    picks = list(episode_browser._strata(endings, {"a/ROD/mcqa/0"}, 0))
    assert len(picks) == 1 and picks[0] in {f"a/ROD/mcqa/{number}" for number in range(5, 9)}
    drawn = {tuple(episode_browser._strata(endings, (), seed)) for seed in range(20)}
    assert len(drawn) > 10 and {len(pair) for pair in drawn} == {2}
    assert {pair[0] in {f"a/ROD/mcqa/{number}" for number in range(5)} for pair in drawn} == {True, False}, "shuffled"


def view(key, **names):
    return {"key": key, "model": "m", "scenario": "QD", "condition": "hint", "kind": "correct", **names}


def test_views_are_sorted_as_the_tables_are(run_data):
    run = replace_episodes(run_data, [episode(0, f"{name}/QD/hint") for name in ("zebra", "ant", "guess")])
    order = [
        view("8", model="ant", scenario="ROD", condition="hint"), view("9", model="ant", condition="zero-shot"),
        view("1", model="ant"), view("2", model="ant"), view("0", model="ant", kind="gave up"),
        view("7", model="ant", condition="also own"), view("6", model="ant", condition="own"),
        view("5", model="ant", scenario="also"), view("4", model="zebra"), view("3", model="guess"),
    ]  # fmt: skip

    assert episode_browser._sort_views(run, order[::-1]) == order


def about(run_data, count, thumbnails, pictures=0, left_out=0):
    views = EpisodeViews(run_data, thumbnails)
    views.views = [{}] * count
    thumbnails.uris, thumbnails.left_out = ["x"] * pictures, left_out
    return episode_browser._about(run_data, views)


def test_a_page_says_what_it_shows_and_what_it_lacks(run_data, demo_data):
    total = run_data.episodes.height
    some = (
        f"2 of {total:,} episodes, drawn with seed 0: complete samples under every model and condition, and one episode of every "
        "ending of every cell, as far as the size limits allow; all others are in the run folder."
    )

    assert about(run_data, total, Thumbnails(demo_data, 9), 1) == [
        f"All {total:,} episodes of the run.", "1 picture as the models saw them, as cropped thumbnails."
    ]  # fmt: skip
    assert about(run_data, 2, Thumbnails(demo_data, 9), 2, 1_500) == [
        some, "2 pictures as the models saw them, as cropped thumbnails; 1,500 more left out to bound the file."
    ]  # fmt: skip
    assert about(run_data, 2, Thumbnails(None, 9)) == [
        some, "There are no pictures and no options, because the data folder is not available."
    ]  # fmt: skip
