"""Measures of installed packages: means of episodes with their intervals, and a failing measure is a sentence."""

import polars as pl
import pytest
from scipy.stats import sem, t

from orchestrator.report.scores.package_measures import join_package_measures, measure_names, package_measures
from orchestrator.report.statistics.proportion import proportion_interval

MODULE = """
import polars as pl

def first(episodes, turns):
    return episodes.select("key", value="number")

def right(episodes, turns):
    return turns.group_by("key").agg(value=100 * pl.col("ok").any())

def broken(episodes, turns):
    1 / 0

def infinite(episodes, turns):
    return episodes.select("key", value=pl.lit(float("inf")))

def twice(episodes, turns):
    return pl.concat([episodes, episodes]).select("key", value="number")

NUMBER = 3
"""
ONE_ROW = "does not return one row per key with a finite number or null; it is left out of the results"
EPISODES = pl.LazyFrame(
    {
        "key": ["a1", "a2", "a3", "a4", "b1", "c1"],
        "cell": ["a", "a", "a", "a", "b", "c"],
        "ending": ["correct", "wrong", "correct", "failed", "wrong", "wrong"],
        "number": [1.0, 2.0, 6.0, 9.0, 4.0, None],
    }
)
TURNS = pl.LazyFrame({"key": ["a1", "a1", "a2", "a3", "a4", "b1"], "ok": [False, True, False, True, True, False]})


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """An installed package with a module of measures."""
    metadata = tmp_path / "fixture_measures-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fixture-measures\nVersion: 1.0\n")
    names = ("first", "right", "broken", "infinite", "twice", "NUMBER")
    entries = "\n".join(f"{name} = fixture_measures:{name}" for name in names)
    (metadata / "entry_points.txt").write_text(f"[proactive_sweep.measures]\n{entries}\n")
    (tmp_path / "fixture_measures.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_value_is_a_mean_over_answered_episodes_with_students_interval():
    rows, failed = package_measures(["first"], EPISODES, TURNS)
    low, high = t.interval(0.95, 2, 3, sem([1, 2, 6]))

    assert rows.columns == ["cell", "first", "first_low", "first_high", "first_n"] and not failed
    assert rows.row(0) == ("a", 3.0, pytest.approx(low), pytest.approx(high), 3)
    assert rows.row(1) == ("b", 4.0, None, None, 1), "one episode has no interval"
    assert rows.row(2) == ("c", None, None, None, None), "a null leaves the episode out"


def test_a_share_has_the_interval_of_accuracies():
    rows, _ = package_measures(["right"], EPISODES, TURNS)

    low, high = proportion_interval(2, 3)
    assert rows.row(0) == ("a", pytest.approx(200 / 3), pytest.approx(100 * low), pytest.approx(100 * high), 3)
    assert rows.row(1)[1:3] == (0, 0), "bounds lie between 0 and 100"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "the measure 'broken' failed (ZeroDivisionError: division by zero); it is left out of the results"),
        ("infinite", f"the measure 'infinite' {ONE_ROW}"),
        ("twice", f"the measure 'twice' {ONE_ROW}"),
    ],
)
def test_a_failing_measure_is_one_sentence_and_the_others_stand(name, why):
    measured, failed = package_measures([name, "first"], EPISODES, TURNS)
    rows = join_package_measures(pl.DataFrame({"cell": ["c", "d", "a"], "acc": [1, 2, 3]}), measured)

    assert failed == [why] and measure_names(rows.columns) == ["first"]
    assert rows["cell"].to_list() == ["c", "d", "a"] and rows["first_n"].to_list() == [0, 0, 3]
