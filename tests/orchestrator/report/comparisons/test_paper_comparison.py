"""A run with the published figures compares as equal; cells that are not comparable are listed with a reason."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.samples import paper_ids
from orchestrator.flip_rate import RATES
from orchestrator.report.paper.published import published_figures
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.paper_comparison import (
    DEFAULT_FLIPS,
    FLOAT_ERROR,
    compare_with_paper,
    comparison_notes,
    comparison_tables,
    flip_probability,
    smallest_difference,
)
from tests.orchestrator.report.runs import play_sweep, replace_part, sweep, write_published_run

MODEL, PAPER = "llava-ov-0.5b", "LLaVA-OV-0.5B"


@pytest.fixture(scope="module")
def published_comparison(tmp_path_factory):
    """A run of one model over the ids of the paper, each cell with its published figures."""
    folder = tmp_path_factory.mktemp("known") / "run"
    return compare_with_paper(read_run(write_published_run(folder, [MODEL, "uniform"], sampling="checkpoint")))


def test_published_figures_differ_by_rounding_only(published_comparison):
    rows = published_comparison.filter(model=MODEL)

    assert rows["reason"].null_count() == rows.height == 8 * (2 + 2 + 1)
    assert rows["inside"].all() and rows["exact"].all()
    cells = rows.filter(pl.col("scenario") != "avg")
    rounding = pl.when(pl.col("measure") == "acc").then(100 / pl.col("planned")).otherwise(1 / pl.col("planned"))
    assert cells.filter(pl.col("difference").abs() > 0.5 * rounding + 1e-9).is_empty(), "no whole number comes closer"
    assert rows.filter(scenario="avg")["difference"].abs().max() < 0.2
    published = published_figures().filter(table="mcqa", paper=PAPER).select("scenario", "measure", "published")
    both = rows.filter(condition="zero-shot").join(published, on=["scenario", "measure"], suffix="_paper")
    assert both.height == 16
    assert both["published"].equals(both["published_paper"])


def test_multi_turn_open_ended_run_is_compared_with_table_10(tmp_path):
    options = {"protocol": "oeg-multi", "judge": {"model": "rule-judge"}, "open_ended": {"sampling": "checkpoint"}}
    folder = write_published_run(tmp_path / "run", ["qwen2.5-vl-7b"], ("zero-shot", "hint"), most=100, **options)
    comparison = compare_with_paper(read_run(folder))
    ours, hint = comparison.filter(condition="zero-shot"), comparison.filter(condition="hint")
    rod = ours.filter(scenario="ROD", measure="acc")

    assert set(comparison["protocol"]) == {"oeg-multi"} and set(ours["measure"]) == {"acc", "ps"}
    assert ours["reason"].null_count() == ours.height == 8 * 2 and ours["inside"].all() and not ours["exact"].any()
    assert ours["difference"].abs().max() < 0.1
    assert rod["published"].item() == 1.1 and rod["ours"].item() == pytest.approx(100 / 88)
    assert set(hint["reason"]) == {"the paper has no such figure"}
    assert any("our reading" in line and "rule-judge/turns-1-" in line for line in comparison_notes(comparison))


def test_demo_data_are_not_compared(demo_data, tmp_path):
    from actors.engine.baselines import Baseline

    wanted = sweep(demo_data, [MODEL], ["zero-shot", "reference"])
    folder = play_sweep(tmp_path / "run", wanted, backends={MODEL: Baseline("uniform")})
    comparison = compare_with_paper(read_run(folder))

    assert comparison["published"].null_count() == comparison.height > 0
    assert comparison["reason"].str.contains("demo benchmark").all()
    assert not list(comparison_tables(comparison))
    assert "14 cells not compared (llava-ov-0.5b): other data" in comparison_notes(comparison)[0]


def test_unfinished_cell_and_its_average_are_not_compared(demo_data, tmp_path):
    folder = write_published_run(tmp_path / "run", [MODEL], ("zero-shot",))
    plan = (folder / "plan.json").read_text()
    missing = sorted((folder / "episodes").glob("*.parquet"))[0]
    rows = pl.read_parquet(missing).filter((pl.col("scenario") != "ROD") | (pl.col("sample_id") < 40))
    replace_part(rows, missing)
    comparison = compare_with_paper(read_run(folder))

    assert '"planned": 88' in plan
    assert comparison.filter(scenario="ROD")["reason"].str.contains("unfinished").all()
    assert comparison.filter(scenario="avg")["reason"].str.contains("not all seven").all()
    assert comparison.filter(scenario="QD")["published"].null_count() == 0


DECODED = {"sampling": {"temperature": 0.0, "max_tokens": 4096}}
SUBSET = "a subset: 4 samples, and not those of the published table"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sampling": {"temperature": 0.7}}, "decoded otherwise than the paper: sampled at temperature 0.7, at most 50 new "
         "tokens, instead of each checkpoint's generation_config with at most 50"),
        ({"protocol": "oeg", "open_ended": DECODED}, "decoded otherwise than the paper: greedy, at most 4,096 new "
         "tokens, instead of sampled with a limit of 4,096 or more"),
        ({"protocol": "oeg"}, SUBSET),
        ({"selection": {"filtered": False}, "conditions": ["hint"]}, "the paper has no such figure"),
        ({"names": ["uniform"]}, "the paper has no such figure"),
        ({}, SUBSET),
        ({"selection": {"limit": 4}}, SUBSET),
    ],
)  # fmt: skip
def test_a_reason_names_the_first_difference_from_the_papers_setting(tmp_path, changes, reason):
    more = {"names": [MODEL], "conditions": ("zero-shot",), "most": 4, **changes}
    found = compare_with_paper(read_run(write_published_run(tmp_path / "run", **more)))

    assert set(found.filter(pl.col("scenario") != "avg")["reason"]) == {reason}


def test_open_ended_cells_are_compared_with_judged_tables(tmp_path):
    """Verdicts with the published shares, by one judge."""
    names, conditions = [MODEL, "idefics3-8b"], ("zero-shot", "hint")
    folder = write_published_run(tmp_path / "run", names, conditions, most=100, protocol="oeg")
    comparison = compare_with_paper(read_run(folder))

    assert comparison["reason"].null_count() == comparison.height == 2 * 2 * 8 * 3
    assert comparison["difference"].abs().max() < 0.1
    assert comparison["inside"].all()
    assert "qwen3-8b/paper-00000000" in " ".join(comparison_notes(comparison))


def shift_answers(folder, scenario, number):
    """Make so many wrong answers of a scenario right."""
    for part in (folder / "episodes").glob("*.parquet"):
        rows = pl.read_parquet(part)
        wrong = (pl.col("scenario") == scenario) & (pl.col("ending") == "wrong")
        chosen = wrong & (wrong.cast(pl.Int64).cum_sum() <= number)
        ending = pl.when(chosen).then(pl.lit("correct")).otherwise("ending").alias("ending")
        replace_part(rows.with_columns(ending, (pl.col("correct") | chosen).alias("correct")), part)


def test_other_decoding_is_compared_by_interval(tmp_path):
    """Greedy replies may end differently from sampled ones, so two points on VSOD's 42 samples are no evidence."""
    folder = write_published_run(tmp_path / "run", [MODEL], ("hint",))
    shift_answers(folder, "VSOD", 1)
    comparison = compare_with_paper(read_run(folder))
    figure = comparison.row(by_predicate=(pl.col("scenario") == "VSOD") & (pl.col("measure") == "acc"), named=True)

    assert not comparison["exact"].any() and comparison["episodes"].null_count() == comparison.height
    assert comparison["inside"].all() and figure["difference"] > 2.0
    assert figure["low"] <= figure["published"] <= figure["high"]
    assert "hint (mcqa), acc: agrees with the paper" in comparison_notes(comparison)[0]


@pytest.mark.parametrize("scenario", ["ROD", "VSOD"])
def test_planted_points_beyond_flips_are_flagged_only_in_their_scenario(tmp_path, scenario):
    """Twelve points of more than are rounded away, and more than 1% of flipped answers explain."""
    folder = write_published_run(tmp_path / "run", [MODEL], ("zero-shot",))
    shift_answers(folder, scenario, round(0.12 * len(paper_ids()[scenario])))
    compared = compare_with_paper(read_run(folder)).filter(measure="acc").drop_nulls("published")

    exact = compared.filter("exact")
    flagged = (exact if exact.height else compared).filter(~pl.col("inside") & (pl.col("scenario") != "avg"))
    assert flagged["scenario"].to_list() == [scenario]


@given(st.integers(1, 3_000), st.integers(0, 3_000), st.floats(0, 100))
def test_the_smallest_difference_is_that_of_the_nearest_count_that_rounds_so(n, total, value):
    smallest = smallest_difference(total, n, value, 100)
    fits = [k for k in range(n + 1) if abs(k - n * value / 100) <= 0.05 * n / 100 + FLOAT_ERROR]

    assert not fits or abs(smallest) == min(abs(total - k) for k in fits)


def test_flip_probability_by_hand():
    # one flip in two episodes, of chance 0.1: two of four ways move the count by one
    assert flip_probability(1, 2, 0.1) == pytest.approx(2 * 0.1 * 0.9 + 0.1**2 / 2)
    assert flip_probability(-2, 2, 0.1) == pytest.approx(0.1**2 / 2)
    assert flip_probability(0, 2, 0.1) == 1 and flip_probability(1, 2, 0.0) == 0


def test_a_measured_rate_of_flips_is_the_null_of_the_paper_comparison(tmp_path):
    """Three more right answers of some thousand are outside rounding, but not outside flips of 0.5%."""
    published = write_published_run(tmp_path / "run", [MODEL], ("zero-shot",), sampling="checkpoint")
    shift_answers(published, "MVP-N", 3)
    plain = compare_with_paper(read_run(published)).filter(scenario="MVP-N", measure="acc").row(0, named=True)
    rates = {name: [None] for name in RATES} | {"setting": ["batch-1"], "model": [MODEL], "correct_high": [0.5]}
    (published / "flip-rate" / "share").mkdir(parents=True)
    pl.DataFrame(rates, schema=RATES).write_csv(published / "flip-rate" / "share" / "rates.csv")
    rows = compare_with_paper(read_run(published))
    row = rows.filter(scenario="MVP-N", measure="acc").row(0, named=True)

    assert plain["episodes"] == row["episodes"] != 0
    assert (plain["inside"], plain["flip_rate"]) == (True, DEFAULT_FLIPS), "no rate is measured"
    assert (row["inside"], row["flip_rate"]) == (True, 0.5)
    shift_answers(published, "MVP-N", 60)
    far = compare_with_paper(read_run(published)).filter(scenario="MVP-N", measure="acc").row(0, named=True)
    assert far["inside"] is False
