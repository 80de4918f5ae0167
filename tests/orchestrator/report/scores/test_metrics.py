"""An error never counts as zero, and equal episodes give equal bytes."""

from random import Random

import polars as pl
import pytest

from envs import SCENARIOS
from envs.types import Ending
from orchestrator.report.scores.metrics import (
    BITS,
    PLANNED_COLUMNS,
    average_over_scenarios,
    judge_measures,
    result_docs,
    score,
    write_results,
)
from orchestrator.report.statistics.proportion import proportion_interval
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.schemas import EPISODES, VERDICTS
from tests.orchestrator.blocks import CELL, block, episode


def table(rows):
    return pl.LazyFrame(rows, schema=EPISODES)


def plan_table(*cells, count=10):
    rows = [(*cell.split("/"), "mcqa", cell, count) for cell in cells]
    return pl.DataFrame(rows, schema=PLANNED_COLUMNS, orient="row")


def test_every_column_of_results_has_a_meaning(run):
    stored = pl.read_parquet_schema(run / "results.parquet")
    docs = {doc.column: doc for doc in result_docs()}

    assert set(stored) <= set(docs) and {"asks", "asks_low", "aggregate"} <= set(docs)
    assert all(docs[name].type == str(kind) and docs[name].meaning for name, kind in stored.items())


def test_the_average_is_the_unweighted_mean_of_the_seven():
    cells = [f"m/{scenario}/hint" for scenario in SCENARIOS]
    rows = [episode(n, cell, turns=1 + i) for i, cell in enumerate(cells) for n in range(i + 1)]
    rows += [episode(9, cells[0], ending=Ending.WRONG, turns=1)]
    counts = plan_table(*cells).with_columns(planned=pl.Series([2, 2, 3, 4, 5, 6, 7]))

    (mean,) = average_over_scenarios(score(table(rows), counts)).to_dicts()

    assert mean["acc"] == pytest.approx((50 + 6 * 100) / 7)
    assert mean["ps"] == pytest.approx(sum(range(7)) / 7)
    assert (mean["scenarios"], mean["complete"], mean["all_seven"]) == (7, 7, True)


@pytest.mark.parametrize("gap", ["pending", "failed", "not planned", "nothing"])
def test_average_is_marked_unless_of_all_seven(gap):
    cells = [f"m/{scenario}/hint" for scenario in SCENARIOS]
    rows = [episode(n, cell) for cell in cells for n in range(2)]
    counts = plan_table(*cells, count=2)
    if gap == "pending":
        rows.pop()
    if gap == "failed":
        rows[-1] = episode(1, cells[-1], ending=Ending.FAILED, turns=0)
    if gap == "not planned":
        counts = counts[:-1]
    if gap == "nothing":
        rows = rows[:-2]

    (mean,) = average_over_scenarios(score(table(rows), counts)).to_dicts()

    assert (mean["complete"], mean["all_seven"]) == (6, False)
    assert mean["scenarios"] == (6 if gap in ("not planned", "nothing") else 7)
    assert mean["acc"] == 100.0


def random_rows(chance, count=400):
    cells = [f"m{m}/{scenario}/hint" for m in range(3) for scenario in ("ROD", "QD", "COCO")]
    return [
        episode(
            number,
            chance.choice(cells),
            ending=chance.choice(list(Ending)),
            turns=chance.randint(1, 9),
            seconds=chance.random(),
            prompt_tokens=chance.randint(1, 999),
        )
        for number in range(count)
    ], plan_table(*cells)


def test_results_do_not_depend_on_order_parts_time_or_tokens(tmp_path):
    chance = Random(5)
    rows, cells = random_rows(chance)
    contents = set()
    for attempt in range(8):
        chance.shuffle(rows)
        rows = [{**row, "seconds": chance.random(), "prompt_tokens": chance.randint(1, 999)} for row in rows]
        folder = tmp_path / str(attempt)
        opened = EpisodeStore(folder, rows=chance.randint(20, 300))
        size = chance.randint(5, 90)
        for first in range(0, len(rows), size):
            opened.append(block(rows[first : first + size]))
        if attempt % 2:
            opened.compact()
        opened.close()
        write_results(folder, score(episodes(folder), cells.sample(fraction=1, shuffle=True, seed=attempt)))
        contents.add((folder / "results.json").read_bytes())

    assert len(contents) == 1


def test_strict_measures_read_first_reply_as_package_does(tmp_path):
    names = ["key", "judge", "category", "suggestion", "aggregate", "reason", "first_failed"]
    rows = [
        ("a", "j", None, None, None, "cut off", True, True, False, True),  # its thinking held a list
        ("b", "j", True, True, True, None, True, False, False, False),  # the second attempt could be read
        ("c", "j", True, False, True, None, False, None, None, None),  # stored before the strict bits
        ("d", "j", None, None, None, "refused", True, None, None, None),
    ]
    strict = [f"strict_{bit}" for bit in BITS]
    read = pl.LazyFrame(rows, schema={name: VERDICTS[name] for name in [*names, *strict]}, orient="row")
    read = read.with_columns(attempts=pl.lit(3, dtype=pl.Int32))
    episodes = pl.LazyFrame({"key": list("abcd"), "cell": ["x"] * 4, "ending": ["answered"] * 4})

    ours, package = (judge_measures(episodes, read, way).to_dicts()[0] for way in (False, True))
    assert (ours["judged"], ours["unjudged"], ours["category"], ours["suggestion"]) == (2, 2, 100, 50)
    assert (package["judged"], package["unjudged"]) == (4, 0)
    assert (package["category"], package["suggestion"], package["aggregate"]) == (50, 0, 50)


def open_ended(rows, verdicts=None, cells=(CELL,)):
    """Return the rows of open-ended cells."""
    frame = None if verdicts is None else pl.LazyFrame(verdicts, schema=VERDICTS)
    open_cells = plan_table(*cells).with_columns(protocol=pl.lit("oeg"))
    return score(table(rows), open_cells, frame).to_dicts()


def verdict(number, **more):
    row = dict.fromkeys(VERDICTS) | {"judge": "j", "category": True, "suggestion": False, "aggregate": True}
    return row | {"key": episode(number)["key"], "first_failed": False} | more


def test_open_ended_cell_counts_judged_answers():
    rows = [episode(n, ending=Ending.ANSWERED, turns=1) for n in range(5)]
    bits = dict.fromkeys(BITS)
    verdicts = [
        verdict(0),
        verdict(1, suggestion=True),
        verdict(2, category=False, aggregate=False),
        verdict(3, **bits, reason="no list"),
        verdict(77),
    ]
    judged, nothing = open_ended(rows, verdicts, (CELL, "x/QD/hint"))

    assert [judged[name] for name in ("answered", "judged", "unjudged", "judge")] == [5, 3, 1, "j"]
    assert [round(judged[bit], 3) for bit in BITS] == [66.667, 33.333, 66.667]
    low, high = proportion_interval(2, 3)
    assert (judged["aggregate_low"], judged["aggregate_high"]) == pytest.approx((100 * low, 100 * high))
    assert [nothing[name] for name in ("answered", "judged", "unjudged", "judge", "category")] == [0, 0, 0, None, None]
    (unread,) = open_ended(rows)
    assert [unread[name] for name in ("answered", "judged", "unjudged", "aggregate")] == [5, 0, 0, None]
