"""What a comparison can see is said before: the stated differences are found in 80% of planted comparisons; flips are not."""

import polars as pl
import pytest

from orchestrator.report.read_run import read_run
from orchestrator.report.tables.flip_rates import RATES
from orchestrator.report.tables.paper_comparison import (
    DEFAULT_FLIPS,
    compare_with_paper,
    flip_probability,
)
from tests.orchestrator.report.runs import replace_part, write_published_run

MODEL = "qwen2.5-vl-7b"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A run with the paper's own figures, decoded as the paper's."""
    folder = tmp_path_factory.mktemp("power")
    return write_published_run(folder / "run", [MODEL], ("zero-shot",), sampling="checkpoint")


def test_flip_probability_by_hand():
    # one flip in two episodes, of chance 0.1: two of four ways move the count by one
    assert flip_probability(1, 2, 0.1) == pytest.approx(2 * 0.1 * 0.9 + 0.1**2 / 2)
    assert flip_probability(-2, 2, 0.1) == pytest.approx(0.1**2 / 2)
    assert flip_probability(0, 2, 0.1) == 1 and flip_probability(1, 2, 0.0) == 0


def test_a_measured_rate_of_flips_is_the_null_of_the_paper_comparison(published):
    """Three more right answers of some thousand are outside rounding, but not outside flips of 0.5%."""
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


def shift_answers(folder, scenario, number):
    """Make so many wrong answers of a scenario right."""
    for part in (folder / "episodes").glob("*.parquet"):
        rows = pl.read_parquet(part)
        wrong = (pl.col("scenario") == scenario) & (pl.col("ending") == "wrong")
        chosen = wrong & (wrong.cast(pl.Int64).cum_sum() <= number)
        ending = pl.when(chosen).then(pl.lit("correct")).otherwise("ending").alias("ending")
        replace_part(rows.with_columns(ending, (pl.col("correct") | chosen).alias("correct")), part)
