"""The exact chance that a policy without eyes is right: computed over the rules of the game, sample by sample.

No simulation: every reply that the policy may give and that counts is played once at every state that it can reach, with its
chance; a reply that does not count ends the episode as not right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import polars as pl

from actors.prompts import staged
from envs import SCENARIOS
from envs.chance import episode_seed
from envs.scenario import Scenario
from envs.types import Ending, Mode, Sample, State
from orchestrator.report.run_data import RunData, once
from sweeps.conditions import Condition
from sweeps.spec import Protocol

Replies = Callable[[Scenario, Sample, State], tuple[str, ...]]
"""What a policy may reply at a state, each as likely."""
NAMES = ("scenario", "condition", "protocol")


def any_option(game: Scenario, sample: Sample, state: State) -> tuple[str, ...]:
    """The replies of the baseline ``uniform``."""
    shown = () if state.mode is Mode.REFERENCE else game.offered(sample, state)
    return (*shown, *sample.categories)


def any_category(game: Scenario, sample: Sample, state: State) -> tuple[str, ...]:
    """The replies of the baseline ``guess``."""
    return sample.categories


POLICIES: dict[str, Replies] = {"uniform": any_option, "guess": any_category}


def right_chance(sample: Sample, replies: Replies, mode: Mode = Mode.PLAY, seed: int = 0) -> float:
    """The chance, as a share, that an episode of this policy ends correct; ``seed`` is the episode's (random-proactive)."""
    game, right = SCENARIOS[sample.scenario], 0.0
    states = {game.initial(sample, mode, seed): 1.0}
    while states:
        after: dict[State, float] = defaultdict(float)
        for state, weight in states.items():
            possible = replies(game, sample, state)
            for reply in game.counting(sample, state, possible):
                reached, _ = game.step(sample, state, reply)
                if reached.ending is Ending.CORRECT:
                    right += weight / len(possible)
                elif reached.ending is None:  # the last move decides which picture is shown, and nothing else
                    after[reached._replace(last=None)] += weight / len(possible)
        states = after
    return right


def guess_chance(sample: Sample, state: State) -> float:
    """The chance, as a share, that a category named blindly at this state is right: 0 where none counts yet."""
    if not SCENARIOS[sample.scenario].answerable(sample, state):
        return 0.0
    return sample.categories.count(sample.answer) / len(sample.categories)


@once
def exact_chance(run_data: RunData, policy: str = "uniform") -> pl.DataFrame:
    """One row scenario x condition of multiple choice: scenario, condition, protocol, chance (percent).

    The mean over the scenario's samples, a row only where they are at hand; ``policy`` is ``uniform`` or ``guess``.
    """
    known: dict[tuple[object, ...], float] = {}
    rows = []
    planned = run_data.planned.filter(protocol=Protocol.MCQA.value).select("scenario", "condition").unique()
    for scenario, name in planned.sort("scenario", "condition").iter_rows():
        condition, samples = run_data.conditions.get(name), run_data.samples.get(scenario)
        if condition is None or not samples:
            continue
        rules = (scenario, condition.mode, condition.source, condition.shuffled)
        if rules not in known:
            chances = [_of_sample(run_data, sample, condition, POLICIES[policy]) for sample in samples.values()]
            known[rules] = 100 * sum(chances) / len(chances)
        rows.append((scenario, name, Protocol.MCQA.value, known[rules]))
    return pl.DataFrame(rows, schema={**dict.fromkeys(NAMES, pl.String), "chance": pl.Float64}, orient="row")


def _of_sample(run_data: RunData, sample: Sample, condition: Condition, replies: Replies) -> float:
    seed = run_data.sweep.seed
    shown = staged(sample, condition, seed)
    return right_chance(shown, replies, condition.mode, episode_seed(seed, sample.scenario, sample.id))
