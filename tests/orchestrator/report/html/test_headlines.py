"""Headlines of planted episodes, worked out by hand: chance, clear pictures, asking, changes, failures and certainty."""

import polars as pl
import pytest

from envs.types import Ending
from orchestrator.report.html import findings
from orchestrator.report.html.findings import find_headlines
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.measures.ranking import SCHEMA
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

RANK = {
    "model": "m", "protocol": "mcqa", "average": 60.0, "models": 4, "n": 40, "rank": 1, "rank_low": 1, "rank_high": 1,
    "p_best": 0.956, "next": "n", "p_beats_next": 0.995, "difference": 10.0, "difference_low": -1.0,
    "difference_high": 21.0, "rank_least": None, "rank_most": None,
}  # fmt: skip


def cell(name, right, n=40, ending=Ending.WRONG, **fields):
    """Return the episodes of a cell, the first ``right`` of them correct, the others with this ending."""
    endings = [Ending.CORRECT] * right + [ending] * (n - right)
    return [episode(number, name, end, **fields) for number, end in enumerate(endings)]


def headlines(run_data, *cells, planned=None):
    run = replace_episodes(run_data, [row for rows in cells for row in rows], planned)
    return find_headlines(run)


def one(found, begin):
    (finding,) = [finding for finding in found if finding.text.startswith(begin)]
    return finding


@pytest.mark.parametrize(("right", "where"), [(40, "lies above"), (0, "lies below"), (10, "contains")])
def test_one_model_is_compared_with_blind_choice(run_data, right, where):
    found = headlines(run_data, cell("m/QD/zero-shot", right), cell("uniform/QD/zero-shot", 10))

    assert one(found, "is the accuracy of choosing") == (
        "25.0%",
        f"is the accuracy of choosing blindly among the options (policy uniform). The interval of m {where} it.",
    )


def test_blind_choice_is_averaged_over_scenarios_and_needs_all(run_data):
    models = [cell(f"{name}/{scenario}/zero-shot", 40) for name in "mn" for scenario in ("QD", "ROD")]
    blind = [cell("uniform/QD/zero-shot", 10), cell("uniform/ROD/zero-shot", 0)]

    assert one(headlines(run_data, *models, *blind), "is the accuracy of choosing") == (
        "12.5%",
        "is the accuracy of choosing blindly among the options (policy uniform). Of 2 other models the interval lies above it "
        "for 2 (m, n) and below it for none.",
    )
    assert not [f for f in headlines(run_data, *models, blind[0]) if "blindly" in f.text]


def test_clear_pictures_of_one_model_have_no_mean_over_models(run_data):
    found = headlines(run_data, cell("m/QD/reference", 30), cell("m/QD/zero-shot", 10), cell("n/QD/reference", 40))

    assert one(found, "points from") == ("−50.0", "points from the clear image (75.0%) to zero-shot (25.0%).")


def test_asking_is_a_mean_of_one_model_and_a_range_of_several(run_data):
    asks, answers = (
        cell("m/QD/zero-shot", 10, ending=Ending.LIMIT, turns=3), cell("n/QD/zero-shot", 10, turns=1),
    )  # fmt: skip

    assert one(headlines(run_data, asks), "suggestions per episode") == (
        "2.0",
        "suggestions per episode is the mean of m, zero-shot, with 75% of the episodes ending at the turn limit.",
    )
    assert one(headlines(run_data, asks, answers), "suggestions per episode") == (
        "0.0–2.0",
        "suggestions per episode is the zero-shot range: n asks least, m most (75% of its episodes end at the turn limit).",
    )


def test_the_condition_with_most_significant_changes_is_named(run_data):
    base = [cell(f"m/{scenario}/zero-shot", right) for scenario, right in (("QD", 20), ("ROD", 20), ("CIT", 20))]
    hints = [cell(f"m/{scenario}/hint", right) for scenario, right in (("QD", 40), ("ROD", 0), ("CIT", 38))]
    other = [cell("m/QD/history", 40), cell("m/QD/reference", 40)]

    # changes: +50, -50 and +45 points
    assert one(headlines(run_data, *base, *hints, *other), "points is the mean change") == (
        "+15.0",
        "points is the mean change under hint, the condition that changes most: against zero-shot on the same samples 2 of 3 "
        "cells rise and 1 fall significantly (exact McNemar, Holm).",
    )
    assert one(headlines(run_data, base[0], cell("m/QD/hint", 21)), "cells differ") == (
        "0 of 1",
        "cells differ significantly in accuracy from zero-shot on the same samples (exact McNemar, Holm over all).",
    )
    assert not [f for f in headlines(run_data, base[0], other[1]) if "McNemar" in f.text], "no way to play"


def test_failures_are_shares_of_the_episodes_that_did_not_succeed(run_data):
    rows = [
        *cell("m/QD/zero-shot", 30, ending=Ending.LIMIT), *cell("m/ROD/zero-shot", 37, ending=Ending.OVERFLOW),
        *cell("m/CIT/zero-shot", 38, ending=Ending.TRUNCATED), *cell("m/IN-C/zero-shot", 39, ending=Ending.UNPROCESSABLE),
        *cell("m/COCO/zero-shot", 0, ending=Ending.REFUSED), *cell("m/QD/hint", 0, ending=Ending.OVERFLOW),
        *cell("uniform/QD/zero-shot", 0),
    ]  # fmt: skip

    assert one(headlines(run_data, rows), "of the 16 zero-shot") == (
        "62.5%",
        "of the 16 zero-shot episodes that did not succeed asked for ever. Next: outgrew the model (18.8%), spent its tokens in "
        "silence (12.5%).",
    )
    assert one(headlines(run_data, cell("m/QD/zero-shot", 39)), "of the 1 zero-shot") == (
        "100%",
        "of the 1 zero-shot episode that did not succeed ended with an unparsable reply.",
    )


def test_the_only_model_has_neither_rank_nor_next(run_data):
    run = replace_episodes(run_data, [*cell("m/QD/zero-shot", 20), *cell("m/ROD/zero-shot", 30)])
    intervals = estimate(run)
    (row,) = intervals.averages.iter_rows(named=True)

    assert find_headlines(run)[0] == (
        "62.5%",
        "is the zero-shot accuracy of m, the only model: mean over 2 scenarios, 95% interval "
        f"{row['acc_low']:.1f} to {row['acc_high']:.1f}.",
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, " On the same samples it is the best of 4 with probability 96% (its rank is 1), and above n with probability > 99%: "
             "+10.0 points, 95% interval −1.0 to +21.0."),
        ({"rank_high": 2}, " On the same samples it is the best of 4 with probability 96% (ranks 1 to 2 are not excluded), and "
             "above n with probability > 99%: +10.0 points, 95% interval −1.0 to +21.0."),
        ({"models": 3}, " On the same samples of 3 its rank is 1, and it is above n with probability > 99%: +10.0 points, 95% "
             "interval −1.0 to +21.0."),
        ({"model": "n"}, " It is unfinished, so no rank is given; n is the best of the complete ones."),
        ({"protocol": "oeg"}, " Fewer than two are complete, so no rank is given."),
    ],
)  # fmt: skip
def test_certainty_of_the_best_model(run_data, monkeypatch, changes, text):
    monkeypatch.setattr(findings, "ranking", lambda _: pl.DataFrame([{**RANK, **changes}], schema=SCHEMA))

    assert findings._certainty(run_data, "m") == text


def test_a_model_ranked_second_is_not_called_the_best(run_data, monkeypatch):
    rows = [{**RANK, "rank": 2}, {**RANK, "model": "n"}]
    monkeypatch.setattr(findings, "ranking", lambda _: pl.DataFrame(rows, schema=SCHEMA))

    assert findings._certainty(run_data, "m") == " With episodes without an answer counted as wrong, n is ranked first."


def test_scope_says_how_many_scenarios_are_complete():
    row = {"all_seven": False, "scenarios": 3, "complete": 3}

    assert findings._scope({**row, "all_seven": True}) == "the seven scenarios"
    assert findings._scope(row) == "3 scenarios"
    assert findings._scope({**row, "complete": 1}) == "3 scenarios, 1 of them complete"


def test_nothing_played_has_no_headline(run_data):
    assert headlines(run_data) == []
