"""Cells and columns of compared runs, least differences, and sentences on decoding: each by hand."""

from types import SimpleNamespace

import polars as pl
import pytest

from orchestrator.report.comparisons import power, rounding, run_comparison
from orchestrator.report.comparisons.rounding import decoding_mismatch, decoding_note, sampling_mismatch
from orchestrator.report.statistics.exact_tests import detectable
from orchestrator.report.tables.table import MISSING, TableCell
from sweeps.sampling import AS_THE_PACKAGE, Sampling
from sweeps.spec import OpenEnded
from tests.orchestrator.report.measures.test_estimates import replace_episodes

ROW = {
    "run": "two", "model": "m", "condition": "hint", "protocol": "mcqa", "n": 2000, "difference": 1.26,
    "difference_low": -1.0, "difference_high": 3.5, "p": 0.2, "p_holm": 0.0456, "ps_difference": -0.126, "ps_low": -0.3,
    "ps_high": 0.05, "loops_difference": 0.04, "loops_low": -1.0, "loops_high": 1.06,
}  # fmt: skip
CELL = {"model": "m", "condition": "hint", "scenario": "QD", "difference": -2.0, "p_holm": 0.01, "equal_p_holm": 0.5}


def test_a_line_of_differences_is_in_the_order_of_its_columns():
    line = run_comparison._difference_line(ROW, pl.DataFrame([CELL, {**CELL, "model": "n"}]), ["ROD", "QD"])

    assert line == (
        TableCell("m", "m"), TableCell("hint", "hint"), TableCell("2,000", 2000),
        TableCell("+1.3", 1.26, "−1.0 to +3.5"), TableCell("0.046", 0.0456), TableCell("−0.13", -0.126, "−0.30 to +0.05"),
        TableCell("0.0", 0.04, "−1.0 to +1.1"), MISSING, TableCell("−2.0*", -2.0),
    )  # fmt: skip
    assert run_comparison._p_value_cell({**ROW, "p_holm": None}) == TableCell("(0.200)", 0.2)
    assert run_comparison._asking_cell({**ROW, "ps_difference": None}, "ps") is MISSING


def test_columns_of_differences_say_what_they_hold():
    assert [(column.name, column.number, column.filter, column.about) for column in run_comparison.COLUMNS] == [
        ("Model", False, False, ""),
        ("Condition", False, True, ""),
        ("Pairs", True, False, "samples that both runs answered"),
        ("Avg", True, False, "difference of accuracy averaged over scenarios, in points, with its 95% interval"),
        ("p", True, False, "after Holm's correction over all rows of models; in brackets that of baselines, not corrected"),
        ("ps", True, False, "difference in suggestions per episode, with its 95% interval"),
        ("loops", True, False,
         "difference in episodes that end at the turn limit, in points, with its 95% interval"),
    ]  # fmt: skip
    assert run_comparison.ABOUT_SCENARIO.format("QD") == (
        "difference of accuracy on QD, in points; * p below 0.05 after Holm's correction, = within the margin"
    )
    assert run_comparison.LEGEND == (
        "* p below 0.05 after Holm's correction over all rows of models; (p) of baselines is not corrected; = the difference is "
        "within the margin of [evidence], by default 2 points"
    )


POWER = {"run": "two", "model": "m", "condition": "hint", "protocol": "mcqa", "scenario": "QD", "n": 100, "least": 5.26}


@pytest.mark.parametrize(
    ("paired", "kind"),
    [(True, "paired, with the discordant pairs observed"), (False, "from a run of the same size, not paired")],
)
def test_least_differences_have_a_line_per_run_model_and_condition(paired, kind):
    rows = [
        POWER, {**POWER, "scenario": "ROD", "least": None}, {**POWER, "scenario": "avg", "least": 2.0},
        {**POWER, "run": "", "protocol": "tools"},
    ]  # fmt: skip
    table = power.power_table(pl.DataFrame(rows, schema=power.SCHEMA), paired)

    assert table.rows == (
        (TableCell("two, m, hint"), MISSING, TableCell("5.3", 5.26), TableCell("2.0", 2.0)),
        (TableCell("m, hint, tools"), MISSING, TableCell("5.3", 5.26), MISSING),
    )
    assert (table.name, [column.name for column in table.columns]) == ("power", ["model", "ROD", "QD", "avg"])
    assert table.title == (
        f"least true difference in points of acc that is found in 80% of cases by one test at 5%: {kind}"
    )


def test_least_difference_of_unpaired_runs_is_2_8_standard_errors(run_data):
    # the interval is 2 x 1.96 standard errors wide, and a difference of two has the error times the root of 2
    row = {"acc_low": 40.0, "acc_high": 40.0 + 2 * 1.959964}

    assert pytest.approx(1.959964 + 0.841621, abs=1e-5) == power.REACH
    assert power._least_unpaired(row) == pytest.approx(2.801585 * 2**0.5, abs=1e-4)
    assert power.unpaired_power(replace_episodes(run_data, [])).is_empty()


def test_decoding_is_compared_with_the_papers():
    package = Sampling(checkpoint=True)

    assert decoding_mismatch(Sampling()) is decoding_mismatch(package) is None
    assert decoding_mismatch(Sampling(max_tokens=9)) == (
        "decoded otherwise than the paper: greedy with at most 9 new tokens, instead of each checkpoint's"
        " generation_config with at most 50"
    )
    assert decoding_mismatch(Sampling(temperature=0.5)).startswith("decoded otherwise than the paper: ")
    assert decoding_note(package, "mcqa") == decoding_note(AS_THE_PACKAGE, "oeg") == ""
    assert decoding_note(Sampling(max_tokens=1_500), "mcqa") == (
        "decoding of mcqa differs: ours greedy, at most 1,500 new tokens; the package's "
        f'{package.description}, at most 50 new tokens (sampling = "checkpoint")'
    )
    assert decoding_note(package, "oeg").startswith(
        f"decoding of oeg differs: ours {package.description}, at most 50 new "
    )


def test_open_ended_answers_are_sampled_without_a_tight_limit():
    most = OpenEnded().sampling.max_tokens

    assert sampling_mismatch(Sampling(temperature=0.1, max_tokens=most)) is None
    assert sampling_mismatch(AS_THE_PACKAGE) is None
    assert sampling_mismatch(Sampling(temperature=0.1, max_tokens=most - 1)).startswith(
        "answered otherwise than in the paper"
    )
    assert sampling_mismatch(Sampling(max_tokens=most)) == (
        f"answered otherwise than in the paper: greedy with at most {most:,} new tokens, instead of sampled with a limit"
        f" of {most:,} or more"
    )


def test_flips_of_no_episodes_explain_everything():
    assert rounding.flip_probability(3, 0, 0.5) == rounding.flip_probability(0, 9, 0.0) == 1.0


def test_paired_runs_see_differences_by_their_discordant_pairs_and_their_interval():
    names = {"run": "two", "model": "m", "condition": "hint", "protocol": "mcqa"}
    cells = [
        {**names, "scenario": "QD", "n": 200, "gained": 20, "lost": 10},
        {**names, "scenario": "ROD", "n": 40, "gained": 0, "lost": 0},
    ]
    averages = [{**names, "n": 240, "difference_low": -2.0, "difference_high": 8.0}]
    rows = power.paired_power(SimpleNamespace(cells=pl.DataFrame(cells), averages=pl.DataFrame(averages)))

    # the average has a standard error of 10 / (2 x 1.96) points, and finds 2.8 of them
    assert rows["scenario"].to_list() == ["QD", "ROD", "avg"] and rows["n"].to_list() == [200, 40, 240]
    assert rows["least"][0] == detectable(200, 0.15) and rows["least"][1] is None
    assert rows["least"][2] == pytest.approx(2.801585 * 10 / (2 * 1.959964), abs=1e-4)
    assert set(rows["run"]) == {"two"} and rows.columns == list(power.SCHEMA)
