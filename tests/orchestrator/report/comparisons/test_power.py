"""What a comparison can see is said before: the stated differences are found in 80% of planted comparisons; flips are not."""

import numpy as np
import polars as pl
import pytest

from orchestrator.report.comparisons.power import paired_power, power_table
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.statistics.exact_tests import mcnemar
from orchestrator.report.tables.flip_rates import RATES
from orchestrator.report.tables.paper_comparison import (
    DEFAULT_FLIPS,
    compare_with_paper,
    flip_probability,
)
from tests.orchestrator.report.comparisons.test_run_comparison import copy_cells
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


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """Two runs of the same cells, answered as under zero-shot and with hints."""
    folder = tmp_path_factory.mktemp("pair")
    folders = [write_published_run(folder / name, [MODEL], [name], most=150) for name in ("zero-shot", "hint")]
    for name in ("plan.json", "sweep.resolved.toml"):
        (folders[1] / name).write_bytes((folders[0] / name).read_bytes())
    (folders[1] / "sums.sha256").unlink()
    copy_cells(folders[1], folders[0])
    return folders


def test_stated_differences_of_paired_runs_are_found_by_the_exact_test(two_runs):
    comparison = compare_runs(read_runs(two_runs))
    power = paired_power(comparison)
    row = comparison.cells.filter(scenario="QD").row(0, named=True)
    least = power.filter(scenario="QD")["least"].item() / 100
    n, share = row["n"], (row["gained"] + row["lost"]) / row["n"]
    rng = np.random.default_rng(2)
    pairs = rng.multinomial(n, [(share + least) / 2, (share - least) / 2, 1 - share], 4_000)

    family = 2 * comparison.cells.height + comparison.averages.height
    assert (mcnemar(pairs[:, 0], pairs[:, 1]) <= 0.05 / family).mean() == pytest.approx(0.8, abs=0.03)
    (line,) = power_table(power, paired=True).rows
    assert len(line) == 9 and line[-1].value < 100 * least, "an average sees more than one scenario"
