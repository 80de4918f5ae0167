"""A model that refuses everything under a condition stops there, with nothing stored; one that answers is counted as before."""

import asyncio
from collections import Counter

import pytest

from actors.engine.backend import Backend, Overflow, Refused, Reply, Unprocessable
from actors.playing.episode_runner import EpisodeRunner
from envs import SCENARIOS
from envs.render import UnreadablePicture as UnprocessablePicture
from envs.samples import load_samples
from orchestrator.execution.result_sink import REFUSALS_TO_STOP, RequestGroup, ResultSink
from orchestrator.planning.plan import make_plan
from orchestrator.storage.episode_store import EpisodeStore, episodes
from sweeps.load import build
from sweeps.spec import Protocol


class Service(Backend):
    """Refuses for good, except where ``answers`` (the request's number) says what else it does."""

    def __init__(self, answers=lambda number: Unprocessable("HTTP 400: no pictures here")):
        self.answers, self.asked = answers, 0

    async def reply(self, request):
        self.asked += 1
        await asyncio.sleep(0)
        answer = self.answers(self.asked - 1)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer or request.situation.view.categories[0])

    async def close(self):
        return None


@pytest.fixture(scope="module")
def plan(demo_data):
    table = {"data": str(demo_data), "models": ["uniform"], "conditions": ["zero-shot", "hint"]}
    samples = {name: load_samples(demo_data, name) for name in SCENARIOS}
    return make_plan(build(table, "x.toml"), {Protocol.MCQA: samples}, samples)


def hint_ordinals(plan, count):
    """The first ordinals of one condition."""
    ordinals = [ordinal for ordinal in range(plan.total) if plan.cells[plan.task(ordinal)[0]].condition.name == "hint"]
    return ordinals[:count]


def play_leases(plan, service, folder, leases):
    """The sink after these leases, each played by a worker's own runner."""
    with_store = EpisodeStore(folder)
    sink = ResultSink(with_store, plan)

    async def play():
        for ordinals in leases:
            async for batch in EpisodeRunner(plan, {"uniform": service}, 4).play(ordinals):
                sink.add(batch)

    asyncio.run(play())
    return sink


def count_endings(sink, folder):
    sink.store.close()
    return Counter(episodes(folder).collect()["ending"].to_list())


HINT = RequestGroup("uniform", "hint", "mcqa")


@pytest.mark.parametrize("lease", [1, 3, 60])
def test_twenty_refusals_stop_model_and_store_nothing(plan, tmp_path, lease):
    """Held back over leases of any size, with fewer episodes in flight than refusals are needed."""
    pending = hint_ordinals(plan, 60)
    leases = [pending[first : first + lease] for first in range(0, len(pending), lease)]
    sink = play_leases(plan, Service(), tmp_path, leases)

    reason = sink.stop_reasons[HINT]
    assert "under hint" in reason and reason.endswith("HTTP 400: no pictures here")
    count = REFUSALS_TO_STOP if lease == 1 else int(reason.split("first ")[1].split()[0])
    assert REFUSALS_TO_STOP == 20 <= count <= 60 and str(HINT) == "uniform/*/hint"
    sink.store_held_back()
    assert count_endings(sink, tmp_path) == {} and sink.stored_per_group.total() == 0


def test_each_condition_is_judged_by_its_own_requests(plan, tmp_path):
    """Nineteen refusals under each of two conditions stop nobody; they are stored once nothing more comes."""
    queue = plan.pending(())["builtin"][: 2 * (REFUSALS_TO_STOP - 1)]
    sink = play_leases(plan, Service(), tmp_path, [queue])

    assert not sink.stop_reasons and sink.stored_per_group.total() == 0
    sink.store_held_back()
    assert count_endings(sink, tmp_path) == {"unprocessable": len(queue)}
    assert {reason.rpartition(": ")[2] for reason in sink.stop_reasons.values()} == {"no pictures here"}


@pytest.mark.parametrize("outcome", [None, Overflow("too long"), Refused("content filter")])
def test_one_other_outcome_releases_held_episodes_once(plan, tmp_path, outcome):
    late = Service(lambda number: outcome if number == 15 else Unprocessable("bad request"))
    cell = hint_ordinals(plan, 50)
    sink = play_leases(plan, late, tmp_path, [cell[:10], cell[10:30], cell[30:]])

    assert not sink.stop_reasons
    counts = count_endings(sink, tmp_path)
    assert counts["unprocessable"] >= 48 and counts.total() == sink.stored_per_group.total() == 50
    assert episodes(tmp_path).collect()["key"].n_unique() == 50


def test_unreadable_pictures_are_no_refusal_of_the_model_and_no_sign_that_it_answers(plan, tmp_path):
    pictures = Service(lambda number: UnprocessablePicture("a.jpg: broken"))
    sink = play_leases(plan, pictures, tmp_path, [range(40)])

    assert sink.stored_per_group.total() == 40 and not sink.stop_reasons and not sink.answering_groups
