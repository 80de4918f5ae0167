"""How efficiently models ask: turns taken against turns needed, accuracy under a budget of suggestions, lift over chance.

Needed are the turns that the oracle takes on the sample, never an assumed number of steps.
"""

from __future__ import annotations

import polars as pl

from envs import SCENARIOS
from envs.types import Action, Ending, Mode, Verdict
from orchestrator.report.endings import PLACE, state_of
from orchestrator.report.exact_chance import exact_chance, guess_chance
from orchestrator.report.intervals import combined
from orchestrator.report.metrics import PLANNED
from orchestrator.report.proportion import proportion_interval
from orchestrator.report.run_data import RunData, once
from sweeps.spec import Protocol

SAMPLE = ["mode", "scenario", "sample_id"]
NAMES = ["cell", "model", "scenario", "condition", "protocol"]
LONGEST_BUDGET = 30
"""Suggestions that a budget curve shows; past it no curve of the paper's models moves."""


@once
def needed(run_data: RunData) -> pl.DataFrame:
    """The turns that each sample needs: mode, scenario, sample_id, needed, source (``oracle`` or ``rules``).

    Taken from the oracle's own correct episodes in the folder, else played by the rules where the samples are at hand.
    """
    mode = _mode(run_data)
    oracle = run_data.episodes.filter(pl.col("model").is_in(run_data.playing("oracle")), ending=Ending.CORRECT)
    seen = oracle.select(mode, "scenario", "sample_id", pl.col("turns").cast(pl.Int64).alias("needed"))
    seen = seen.group_by(SAMPLE).agg(pl.col("needed").min()).with_columns(pl.lit("oracle").alias("source"))
    solved = [
        (mode.value, scenario, number, _solved(run_data, scenario, number, mode), "rules")
        for mode in (Mode.PLAY, Mode.REFERENCE)
        for scenario, samples in run_data.samples.items()
        for number in samples
    ]
    rules = pl.DataFrame(solved, schema=seen.schema, orient="row").join(seen, on=SAMPLE, how="anti")
    return pl.concat([seen, rules]).sort(SAMPLE)


@once
def efficiency(run_data: RunData) -> pl.DataFrame:
    """One row a planned cell: measured, needed, asked, surplus, efficiency, efficiency_above_chance, reason.

    ``measured`` counts the scored episodes whose sample's need is known. ``needed`` and ``asked`` are mean suggestions;
    ``surplus`` their ratio in percent (null where nothing is needed). ``efficiency`` is success weighted by path length in
    percent (Anderson et al. 2018, arXiv:1807.06757): mean of correct x needed / max(needed, turns). An early lucky guess
    earns all of it; ``efficiency_above_chance`` takes from every wrong category what the same guess would win by chance
    (``guess_penalty``), so that guessing is worth 0 and the oracle 100; null where the samples are not at hand, and in
    words, where no options are shown to guess among. Both are null with a reason where no need is known.
    """
    mode = _mode(run_data)
    turns = pl.col("turns").cast(pl.Int64)
    path = pl.col("needed") / pl.max_horizontal("needed", turns)
    known = run_data.scored.with_columns(mode).join(needed(run_data), on=SAMPLE)
    known = known.join(guess_penalty(run_data), on="key", how="left")
    credit = pl.col("correct").cast(pl.Int64) - pl.col("penalty").fill_null(0)
    at_hand = pl.col("scenario").is_in(list(run_data.samples)) & (pl.col("protocol") == Protocol.MCQA)
    means = known.group_by("cell").agg(
        pl.len().cast(pl.Int64).alias("measured"),
        (pl.col("needed") - 1).mean().alias("needed"),
        (turns - 1).mean().alias("asked"),
        (100 * (pl.col("correct") * path).mean()).alias("efficiency"),
        pl.when(at_hand.all()).then(100 * (credit * path).mean()).alias("efficiency_above_chance"),
    )
    ratio = pl.when(pl.col("needed") > 0).then(100 * pl.col("asked") / pl.col("needed")).alias("surplus")
    reason = (
        pl.when(pl.col("scored") == 0)
        .then(pl.lit("nothing is scored yet"))
        .when(pl.col("measured").is_null())
        .then(pl.lit("neither an oracle that played so nor the data is at hand"))
    )
    rows = run_data.rows.select(*NAMES, "scored").join(means, on="cell", how="left")
    return rows.with_columns(ratio, reason.alias("reason"), pl.col("measured").fill_null(0)).sort("cell")


@once
def budget(run_data: RunData, longest: int = LONGEST_BUDGET) -> pl.DataFrame:
    """Accuracy when only so many suggestions are allowed: one row cell x budget with names, scored, budget, acc (percent).

    ``acc_low`` and ``acc_high`` are its 95% limits.

    Budgets run from 0 to the most suggestions of any correct episode, ``longest`` at most. An episode that asked more
    counts as not correct: it had not answered yet.
    """
    right = run_data.scored.filter("correct").select("cell", (pl.col("turns") - 1).cast(pl.Int64).alias("budget"))
    most = right["budget"].max()
    steps = pl.DataFrame({"budget": range(min(longest, most if isinstance(most, int) else 0) + 1)})
    cells = run_data.rows.filter(pl.col("scored") > 0).select(*NAMES, "scored")
    counted = right.group_by("cell", "budget").len("hits")
    grid = cells.join(steps, how="cross").join(counted, on=["cell", "budget"], how="left").sort("cell", "budget")
    within = pl.col("hits").fill_null(0).cum_sum().over("cell")
    grid = grid.with_columns(within.alias("hits"))
    limits = [proportion_interval(hits, scored) for hits, scored in grid.select("hits", "scored").iter_rows()]
    ends = pl.DataFrame(limits, schema={"acc_low": pl.Float64, "acc_high": pl.Float64}, orient="row")
    bounds = ends.select(pl.all() * 100).get_columns()
    return grid.with_columns((100 * pl.col("hits") / pl.col("scored")).alias("acc"), *bounds).drop("hits")


@once
def budget_averages(run_data: RunData, longest: int = LONGEST_BUDGET) -> pl.DataFrame:
    """The curve averaged over scenarios, unweighted: model, condition, protocol, budget, acc, acc_low, acc_high, scenarios.

    The limits are those of independent estimates combined (``intervals.combined``).
    """
    names, limits = ["model", "condition", "protocol", "budget"], ["acc", "acc_low", "acc_high"]
    rows = [
        (*group, float(part["acc"].to_numpy().mean()), *combined(part.select(limits).rows()), part.height)
        for group, part in budget(run_data, longest).group_by(names)
    ]
    schema = {**dict.fromkeys(names, pl.String), **dict.fromkeys(limits, pl.Float64), "scenarios": pl.Int64}
    return pl.DataFrame(rows, schema=schema | {"budget": pl.Int64}, orient="row").sort(names)


@once
def lift(run_data: RunData) -> pl.DataFrame:
    """Accuracy over blind choice among the options, in the same scenario and condition: one row a planned cell.

    ``chance`` is the exact accuracy of the policy ``uniform`` where the samples are at hand (``chance_source`` is
    ``exact``), else that of the baseline's one run in the folder (``baseline``), else null. ``lift`` is the points above it,
    ``of_possible`` the lift in percent of what chance leaves (100 x (acc - chance) / (100 - chance)).
    """
    same = ["scenario", "condition", "protocol"]
    baseline = run_data.rows.filter(pl.col("model").is_in(run_data.playing("uniform")[:1]))
    rows = run_data.rows.select(*PLANNED, "acc").join(
        exact_chance(run_data).rename({"chance": "exact"}), on=same, how="left"
    )
    rows = rows.join(baseline.select(*same, pl.col("acc").alias("baseline")), on=same, how="left")
    source = pl.coalesce(*[pl.when(pl.col(name).is_not_null()).then(pl.lit(name)) for name in ("exact", "baseline")])
    rows = rows.with_columns(pl.coalesce("exact", "baseline").alias("chance"), source.alias("chance_source"))
    above = pl.col("acc") - pl.col("chance")
    possible = pl.when(pl.col("chance") < 100).then(100 * above / (100 - pl.col("chance")))
    named = rows.drop("exact", "baseline").with_columns(above.alias("lift"), possible.alias("of_possible"))
    return named.sort("cell")


def guess_penalty(run_data: RunData) -> pl.DataFrame:
    """What a wrong category costs: key and penalty, for the episodes that ended with one and whose sample is at hand.

    g / (1 - g), with g the exact chance of a right guess at that turn: a right answer less this penalty for each wrong one
    is worth 0 to whoever guesses, whenever he does (correction for guessing; Frary 1988, Educational Measurement 7:33-38).
    """
    wrong = (pl.col("action") == Action.CATEGORY) & (pl.col("category") == Verdict.WRONG)
    last = run_data.last.filter(wrong, protocol=Protocol.MCQA.value)
    places, penalties = last.select(PLACE).unique(maintain_order=True), list[float | None]()
    for row in places.iter_rows():
        sample = run_data.samples.get(row[0], {}).get(row[1])
        chance = None if sample is None else guess_chance(sample, state_of(row))
        penalties.append(None if chance is None else chance / (1 - chance))
    known = places.with_columns(pl.Series("penalty", penalties, dtype=pl.Float64))
    return last.join(known, on=PLACE, how="left", maintain_order="left").select("key", "penalty")


def _mode(run_data: RunData) -> pl.Expr:
    modes = {condition.name: condition.mode.value for condition in run_data.conditions.values()}
    return pl.col("condition").replace_strict(modes, default=Mode.PLAY.value, return_dtype=pl.String).alias("mode")


def _solved(run_data: RunData, scenario: str, number: int, mode: Mode) -> int:
    """Turns in which the rules' own solution answers (``Scenario.solve``)."""
    game, sample = SCENARIOS[scenario], run_data.samples[scenario][number]
    state = game.initial(sample, mode)
    while state.ending is None:
        state, _ = game.step(sample, state, game.solve(sample, state))
    return state.turn
