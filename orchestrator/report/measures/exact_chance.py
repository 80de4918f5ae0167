"""The exact chance that the baseline ``uniform`` is right, and its mean number of suggestions, computed from the rules.

Every option is played once at every reachable state of a sample, weighted with its chance.
"""

from collections import defaultdict
from typing import NamedTuple

import polars as pl

from actors.playing.prompts import apply_condition
from envs import SCENARIOS
from envs.chance import episode_seed
from envs.types import Ending, Mode, Sample, State
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import PLANNED_COLUMNS
from sweeps.spec import Protocol

NAMES = ["scenario", "condition", "protocol"]


class BlindPlay(NamedTuple):
    """The exact values of random play on one sample, blind to its pictures."""

    right: float
    """Chance (0 to 1) that an episode ends correct."""
    suggestions: float
    """Mean number of turns minus one, the benchmark's ps."""


def blind_play(sample: Sample, mode: Mode = Mode.PLAY, seed: int = 0) -> BlindPlay:
    """Return the exact values of the baseline ``uniform``; ``seed`` is the episode's, for the moves of random-proactive."""
    game, right, suggestions = SCENARIOS[sample.scenario], 0.0, 0.0
    states = {game.initial(sample, mode, seed): 1.0}
    while states:
        after: dict[State, float] = defaultdict(float)
        for state, weight in states.items():
            shown = () if mode is Mode.REFERENCE else game.offered(sample, state)
            share = weight / (len(shown) + len(sample.categories))
            for reply in (*shown, *sample.categories):
                next_state, _ = game.step(sample, state, reply)
                right += share * (next_state.ending is Ending.CORRECT)
                if next_state.ending is None:  # the last move decides which picture is shown, and nothing else
                    after[next_state._replace(last=None)] += share
        suggestions += sum(after.values())
        states = after
    return BlindPlay(right, suggestions)


@cached_per_run
def exact_chance(run_data: RunData) -> pl.DataFrame:
    """Return one row per scenario and condition of multiple choice: scenario, condition, protocol, chance (percent), chance_ps.

    Chances are means over the scenario's samples; a scenario whose samples cannot be read has no row.
    """
    cache: dict[tuple[object, ...], tuple[float, float]] = {}
    rows, seed = [], run_data.sweep.seed
    planned = run_data.planned.filter(protocol=Protocol.MCQA.value).select("scenario", "condition").unique()
    for scenario, name in planned.sort("scenario", "condition").iter_rows():
        condition, samples = run_data.conditions[name], run_data.samples.get(scenario, {}).values()
        if not samples:
            continue
        rules = (scenario, condition.mode, condition.source, condition.shuffled)  # all that changes the chance
        if rules not in cache:
            shown = [(apply_condition(s, condition, seed), episode_seed(seed, scenario, s.id)) for s in samples]
            plays = [blind_play(sample, condition.mode, own_seed) for sample, own_seed in shown]
            right, suggestions = (sum(column) / len(plays) for column in zip(*plays, strict=True))
            cache[rules] = 100 * right, suggestions
        rows.append((scenario, name, Protocol.MCQA.value, *cache[rules]))
    schema = {**dict.fromkeys(NAMES, pl.String), "chance": pl.Float64, "chance_ps": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


@cached_per_run
def lift_over_chance(run_data: RunData) -> pl.DataFrame:
    """Return accuracy above blind choice among the options of the same scenario and condition, one row per planned cell.

    ``chance`` is the exact accuracy of the policy ``uniform``, and ``chance_ps`` its ps, null without the samples. ``lift`` is
    accuracy minus chance in points, with ``lift_low`` and ``lift_high`` (95%).
    """
    cells = estimate(run_data).cells.select(*PLANNED_COLUMNS, "acc", "acc_low", "acc_high")
    lifts = {f"lift{end}": pl.col(f"acc{end}") - pl.col("chance") for end in ("", "_low", "_high")}
    rows = cells.join(exact_chance(run_data), on=NAMES, how="left").with_columns(**lifts)
    return rows.drop("acc_low", "acc_high").sort("cell")
