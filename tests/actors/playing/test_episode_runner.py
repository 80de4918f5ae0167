"""A runner delivers every leased episode in exactly one batch, however its episodes interleave."""

import asyncio
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from actors.engine.backend import Backend, BackendDied, Reply
from actors.playing import lease
from actors.playing.episode_runner import EpisodeRunner
from envs import SCENARIOS
from envs.installed import PackageError
from envs.samples import load_samples
from orchestrator.planning.plan import make_plan
from sweeps.conditions import Condition
from sweeps.load import build
from sweeps.spec import Protocol


class Dawdling(Backend):
    """Answers after a random pause, so that episodes end out of order; may die after so many replies."""

    def __init__(self, seed: int, dies_after: int = 10**9) -> None:
        self.rng, self.left = random.Random(seed), dies_after

    async def reply(self, request):
        await asyncio.sleep(self.rng.random() * 0.003)
        self.left -= 1
        if self.left < 0:
            raise BackendDied("gone")
        view = request.situation.view
        return Reply(self.rng.choice(view.options + view.categories))


@pytest.fixture(scope="module")
def plan(demo_data):
    table = {
        "data": str(demo_data),
        "models": ["uniform"],
        "conditions": ["zero-shot", "hint", "random-proactive", "icl-1"],
    }
    sweep = build(table, "x.toml")
    samples = {name: load_samples(demo_data, name) for name in SCENARIOS}
    return make_plan(sweep, {Protocol.MCQA: samples}, samples)


async def collect_batches(runner, ordinals):
    batches = []
    try:
        async for batch in runner.play(ordinals):
            batches.append(batch)
    except BackendDied:
        return batches, True
    return batches, False


@pytest.mark.parametrize("in_flight", [1, 7, 64])
@pytest.mark.parametrize("patience", [0.02, 1.0])
def test_each_episode_is_delivered_once_with_its_turns(plan, monkeypatch, in_flight, patience):
    """The open batch changes at awaits: an episode added to a batch already sent would be lost silently."""
    monkeypatch.setattr(lease, "MIN_BATCH_AGE_S", patience)
    monkeypatch.setattr(lease, "BATCH_EPISODES", 16)
    pending = plan.pending(())["builtin"][:250]
    batches, died = asyncio.run(collect_batches(EpisodeRunner(plan, {"uniform": Dawdling(1)}, in_flight), pending))

    assert not died
    assert Counter(o for batch in batches for o in batch.ordinals) == Counter(pending)
    for batch in batches:
        turns = Counter(batch.turns["key"])
        assert [turns[key] for key in batch.episodes["key"]] == batch.episodes["turns"]


def test_finished_episodes_are_delivered_once_after_engine_death(plan):
    pending = plan.pending(())["builtin"]
    batches, died = asyncio.run(
        collect_batches(EpisodeRunner(plan, {"uniform": Dawdling(2, dies_after=100)}, 16), pending)
    )
    delivered = Counter(o for batch in batches for o in batch.ordinals)

    assert died
    assert 0 < len(delivered) < len(pending) and max(delivered.values()) == 1


def test_recalled_episodes_are_skipped_unless_begun(plan):
    """Two leases run at a time; a recall applies to these leases, not to later ones."""
    pending = plan.pending(())["builtin"]
    runner = EpisodeRunner(plan, {"uniform": Dawdling(3)}, 8)

    async def play_leases():
        streams = [asyncio.create_task(collect_batches(runner, part)) for part in (pending[:200], pending[200:400])]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the lanes of both have begun
        runner.recall(frozenset(pending[:390]))
        batches = [batch for stream in streams for batch in (await stream)[0]]
        later, _ = await collect_batches(runner, pending[:20])
        return Counter(o for b in batches for o in b.ordinals), Counter(o for b in later for o in b.ordinals)

    first, later = asyncio.run(play_leases())

    assert set(first.values()) == {1}
    assert set(pending[390:400]) <= first.keys(), "what nobody recalled is played"
    assert len(first) <= 10 + 2 * 8, "of the others only those that were begun"
    assert later == Counter(pending[:20])


def test_rules_of_a_package_that_this_machine_lacks_are_refused_before_any_episode(plan, monkeypatch):
    monkeypatch.setattr("envs.installed.offers", lambda kind: {})
    cell = plan.cells[0].model_copy(update={"condition": Condition(name="x", every_state=True)})
    with pytest.raises(PackageError, match="every-state"):
        EpisodeRunner(SimpleNamespace(cells=(cell,)), {}, 1)
