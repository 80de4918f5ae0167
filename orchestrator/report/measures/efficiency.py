"""Efficiency of asking: turns taken and needed, accuracy under a budget of suggestions, lift over chance.

The turns that a sample needs are those that the oracle takes on it.
"""

import polars as pl

from envs import SCENARIOS
from envs.types import Action, Ending, Mode, Verdict
from orchestrator.report.measures.endings import VIEW_COLUMNS, state_from_view
from orchestrator.report.measures.estimates import estimate, suggestion_limits
from orchestrator.report.measures.exact_chance import exact_chance, guess_chance
from orchestrator.report.measures.mean_bounds import Range, add_bounds, average_bounds
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import PLANNED_COLUMNS, share_columns
from sweeps.spec import Protocol

LONGEST_BUDGET = 30
"""Largest budget of suggestions that is computed; above it, no curve of the paper's models changes."""
SAMPLE = ["mode", "scenario", "sample_id"]
NAMES = ["cell", "model", "scenario", "condition", "protocol"]


@cached_per_run
def turns_needed(run_data: RunData) -> pl.DataFrame:
    """Return the turns that each sample needs: mode, scenario, sample_id, needed, source (``oracle`` or ``rules``).

    Taken from the oracle's correct episodes in the folder, else from the solution by the rules if the samples are available.
    """
    oracle = run_data.episodes.filter(pl.col("model").is_in(run_data.models_of_policy("oracle")), ending=Ending.CORRECT)
    fewest = pl.col("turns").cast(pl.Int64).min().alias("needed")
    oracle_turns = (
        oracle.with_columns(run_data.mode_column).group_by(SAMPLE).agg(fewest, pl.lit("oracle").alias("source"))
    )
    solved = [
        (mode.value, scenario, number, SCENARIOS[scenario].solution(sample, mode)[-1].turn, "rules")
        for mode in (Mode.PLAY, Mode.REFERENCE)
        for scenario, samples in run_data.samples.items()
        for number, sample in samples.items()
    ]
    rules = pl.DataFrame(solved, schema=oracle_turns.schema, orient="row").join(oracle_turns, on=SAMPLE, how="anti")
    return pl.concat([oracle_turns, rules]).sort(SAMPLE)


@cached_per_run
def efficiency(run_data: RunData) -> pl.DataFrame:
    """Return one row per planned cell: measured, needed, asked, surplus, efficiency, efficiency_above_chance, reason.

    ``measured`` counts the scored episodes of samples whose needed turns are known. ``needed`` and ``asked`` are mean
    suggestions, ``surplus`` is 100 x asked / needed (null if nothing is needed). ``efficiency`` is success weighted by path
    length in percent (Anderson et al. 2018, arXiv:1807.06757): mean of correct x needed / max(needed, turns). An early lucky
    guess counts fully; ``efficiency_above_chance`` subtracts ``guess_penalty`` for every wrong category, so that guessing has
    an expected value of 0 and the oracle 100; null without the samples and for open-ended protocols.

    All but ``measured`` and ``needed`` have 95% bounds (``_low``, ``_high``); those of ``surplus`` treat ``needed`` as exact.
    """
    turns = pl.col("turns").cast(pl.Int64)
    path = pl.col("needed") / pl.max_horizontal("needed", turns)
    measured = run_data.scored.with_columns(run_data.mode_column).join(turns_needed(run_data), on=SAMPLE)
    measured = measured.join(guess_penalty(run_data), on="key", how="left")
    credit = pl.col("correct").cast(pl.Int64) - pl.col("penalty").fill_null(0)
    samples_available = pl.col("scenario").is_in(list(run_data.samples)) & (pl.col("protocol") == Protocol.MCQA)
    episodes = measured.select(
        "cell", "scenario", "sample_id",
        (pl.col("needed") - 1).alias("needed"),
        (turns - 1).alias("asked"),
        (100 * pl.col("correct") * path).alias("efficiency"),
        pl.when(samples_available).then(100 * credit * path).alias("efficiency_above_chance"),
    )  # fmt: skip
    means = episodes.group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("measured"),
        pl.col("needed", "asked", "efficiency").mean(),
        pl.when(pl.col("efficiency_above_chance").null_count() == 0).then(pl.col("efficiency_above_chance").mean()),
    )
    means = add_bounds(means, episodes, run_data, _ranges(run_data, episodes))
    ratios = [
        pl.when(pl.col("needed") > 0).then(100 * pl.col(f"asked{end}") / pl.col("needed")).alias(f"surplus{end}")
        for end in ("", "_low", "_high")
    ]
    reason = (
        pl.when(pl.col("scored") == 0)
        .then(pl.lit("nothing is scored yet"))
        .when(pl.col("measured").is_null())
        .then(pl.lit("neither an oracle episode nor the data folder is available"))
    )
    rows = run_data.rows.select(*NAMES, "scored").join(means, on="cell", how="left")
    return rows.with_columns(*ratios, reason.alias("reason"), pl.col("measured").fill_null(0)).sort("cell")


def _ranges(run_data: RunData, episodes: pl.DataFrame) -> dict[str, Range]:
    """Return the least and greatest possible value of an episode, by measure."""
    longest = max(suggestion_limits(run_data).values(), default=0)
    lowest = episodes.select(pl.min_horizontal(pl.lit(-100.0), pl.col("efficiency_above_chance").min())).item()
    above_chance = (float(lowest), 100.0)
    return {"asked": (0.0, longest), "efficiency": (0.0, 100.0), "efficiency_above_chance": above_chance}


@cached_per_run
def budget_curve(run_data: RunData) -> pl.DataFrame:
    """Return accuracy under a budget of suggestions, one row per cell and budget: names, scored, budget, acc (percent).

    ``acc_low`` and ``acc_high`` are its 95% bounds. Budgets run from 0 to the most suggestions of any correct episode, at
    most ``LONGEST_BUDGET``. An episode with more suggestions than the budget counts as wrong: it had not answered yet.
    """
    right = run_data.scored.filter("correct").select("cell", (pl.col("turns") - 1).cast(pl.Int64).alias("budget"))
    budgets = pl.DataFrame({"budget": range(min(LONGEST_BUDGET, max(right["budget"], default=0)) + 1)})
    cells = run_data.rows.filter(pl.col("scored") > 0).select(*NAMES, "scored")
    answered = right.group_by("cell", "budget").len("hits")
    grid = cells.join(budgets, how="cross").join(answered, on=["cell", "budget"], how="left").sort("cell", "budget")
    within = pl.col("hits").fill_null(0).cum_sum().over("cell")
    return grid.with_columns(share_columns("acc", within, pl.col("scored"))).drop("hits")


@cached_per_run
def average_budget_curve(run_data: RunData) -> pl.DataFrame:
    """Return the unweighted average of the curves over scenarios, with bounds by ``average_bounds``.

    Columns: model, condition, protocol, budget, acc, acc_low, acc_high, scenarios.
    """
    names, curves = ["model", "condition", "protocol", "budget"], budget_curve(run_data)
    counts = curves.group_by(names).agg(pl.len().cast(pl.Int64).alias("scenarios"))
    return average_bounds(curves, names, ["acc"]).join(counts, on=names).sort(names)


@cached_per_run
def lift_over_chance(run_data: RunData) -> pl.DataFrame:
    """Return accuracy above blind choice among the options of the same scenario and condition, one row per planned cell.

    ``chance`` is the exact accuracy of the policy ``uniform`` if the samples are available (``chance_source`` is
    ``exact``; ``chance_ps`` is its ps), else that of the baseline in the folder (``baseline``), else null. ``lift`` is
    accuracy minus chance in points, with ``lift_low`` and ``lift_high`` (95%) if chance is exact; ``of_possible`` is
    100 x lift / (100 - chance).
    """
    same = ["scenario", "condition", "protocol"]
    baseline = run_data.rows.filter(pl.col("model").is_in(run_data.models_of_policy("uniform")[:1]))
    exact = exact_chance(run_data).rename({"chance": "exact"})
    limits = estimate(run_data).cells.select("cell", "acc_low", "acc_high")
    rows = run_data.rows.select(*PLANNED_COLUMNS, "acc").join(exact, on=same, how="left")
    rows = rows.join(limits, on="cell", how="left")
    rows = rows.join(baseline.select(*same, pl.col("acc").alias("baseline")), on=same, how="left")
    source = pl.coalesce(*[pl.when(pl.col(name).is_not_null()).then(pl.lit(name)) for name in ("exact", "baseline")])
    rows = rows.with_columns(pl.coalesce("exact", "baseline").alias("chance"), source.alias("chance_source"))
    above = pl.col("acc") - pl.col("chance")
    possible = pl.when(pl.col("chance") < 100).then(100 * above / (100 - pl.col("chance")))
    ends = [
        pl.when(pl.col("chance_source") == "exact").then(pl.col(f"acc_{end}") - pl.col("chance")).alias(f"lift_{end}")
        for end in ("low", "high")
    ]
    named = rows.with_columns(above.alias("lift"), *ends, possible.alias("of_possible"))
    return named.drop("exact", "baseline", "acc_low", "acc_high").sort("cell")


def guess_penalty(run_data: RunData) -> pl.DataFrame:
    """Return the penalty of a wrong last category: key and penalty, null without the sample.

    The penalty is g / (1 - g), with g the exact chance of a right guess at that turn. If a right answer scores 1 and a wrong one
    loses the penalty, a guess has an expected value of 0 at any turn (correction for guessing; Frary 1988, Educational
    Measurement 7:33-38).
    """
    wrong = (pl.col("action") == Action.CATEGORY) & (pl.col("category") == Verdict.WRONG)
    last = run_data.last_turns.filter(wrong, protocol=Protocol.MCQA.value)
    views, penalties = last.select(VIEW_COLUMNS).unique(maintain_order=True), list[float | None]()
    for row in views.iter_rows():
        sample = run_data.samples.get(row[0], {}).get(row[1])
        chance = None if sample is None else guess_chance(sample, state_from_view(row))
        penalties.append(None if chance is None else chance / (1 - chance))
    penalized = views.with_columns(pl.Series("penalty", penalties, dtype=pl.Float64))
    return last.join(penalized, on=VIEW_COLUMNS, how="left", maintain_order="left").select("key", "penalty")
