"""The tables and notes on the differences between runs, cell by cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from orchestrator.report.comparisons.run_comparison import (
    RunComparison,
    compare_runs,
    configuration_differences,
    distinct_names,
)
from orchestrator.report.read_run import read_runs
from orchestrator.report.run_data import RunData
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def two_runs(demo_data, tmp_path_factory) -> list[RunData]:
    """A run of policies less another with other random choices and one more condition; ``uniform`` is no baseline here."""
    folder = tmp_path_factory.mktemp("differences")
    model = {"name": "mine", "source": "human:mine", "backend": "human"}
    first = play_sweep(folder / "one", sweep(demo_data, [model, "guess"], ["zero-shot"], scenarios=["QD", "ROD"]))
    second = play_sweep(
        folder / "two",
        sweep(demo_data, [model, "guess"], ["zero-shot", "hint", "history"], scenarios=["QD", "ROD"], seed=5),
    )
    return read_runs([first, second])


@pytest.fixture(scope="module")
def comparison(two_runs) -> RunComparison:
    return compare_runs(two_runs)


def test_cells_of_one_run_only_are_counted_and_the_first_are_named(comparison):
    assert comparison.notes[-1] == "8 cells only in two: guess/QD/hint, guess/QD/history, guess/ROD/hint and 5 more"
    assert "seed: 0 in one, 5 in two" in comparison.notes
    assert [note for note in comparison.notes if "only in" in note] == [comparison.notes[-1]]


def test_cells_that_only_the_first_run_has_are_counted_too(two_runs):
    kept = pl.col("model") == "mine", pl.col("condition") != "history"
    second = two_runs[1]
    fewer = replace(second, planned=second.planned.filter(*kept), episodes=second.episodes.filter(*kept))
    notes = [note for note in compare_runs([two_runs[0], fewer]).notes if "only in" in note]

    assert notes == [
        "2 cells only in two: mine/QD/hint, mine/ROD/hint",
        "2 cells only in one: guess/QD/zero-shot, guess/ROD/zero-shot",
    ]


def test_intervals_over_clusters_are_called_so(two_runs, comparison):
    clustered = compare_runs([two_runs[0], replace(two_runs[1], cluster="object")])

    assert clustered.notes[-1].startswith("intervals of two: 95%, over clusters: 10 in QD (samples of one scenario")
    assert not [note for note in comparison.notes if note.startswith("intervals")]


def test_the_first_twenty_differences_of_configuration_are_listed(demo_data):
    class Of:
        def __init__(self, **keys) -> None:
            self.sweep = sweep(demo_data, **keys)

    names = ["oracle", "always-ask", "uniform", "guess", "first-option", "abstain"]
    base = Of(models=[{"name": name, "source": f"Org/{name}", "revision": "a"} for name in names])
    other = Of(
        models=[{"name": name, "source": f"Other/{name}", "revision": "b", "dtype": "half"} for name in names],
        seed=1, selection={"limit": 3}, sampling={"max_tokens": 9},
    )  # fmt: skip

    lines = configuration_differences(base, other, "one", "two")
    assert len(lines) == 21 and lines[-1] == "1 more difference of configuration"
    assert lines[0] == 'models.abstain.dtype: "auto" in one, "half" in two'
    assert configuration_differences(base, base, "one", "two") == ["one and two are of the same configuration"]


def test_names_are_as_much_of_the_path_as_makes_them_distinct():
    assert distinct_names([Path("/a/one"), Path("/b/two")]) == ("one", "two")
    assert distinct_names([Path("/x/a/run"), Path("/x/b/run"), Path("/x/b/other")]) == ("a/run", "b/run", "b/other")
    assert distinct_names([Path("/x/run"), Path("/x/run")]) == ("/x/run", "/x/run")
