"""A model that refuses everything stops with nothing stored; one that answers anything is counted as before."""

import asyncio
from collections import Counter

import pytest

from actors.engine.backend import Backend, Overflow, Refused, Reply, Unprocessable
from actors.playing.episode_runner import EpisodeRunner
from envs import SCENARIOS
from envs.render import UnreadablePicture as UnprocessablePicture
from envs.samples import load_samples
from orchestrator.execution.circuit_breaker import REFUSALS_TO_STOP, CircuitBreaker
from orchestrator.execution.result_sink import ResultSink
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


def under_hint(plan, count):
    """The first ordinals of one condition."""
    found = [ordinal for ordinal in range(plan.total) if plan.cells[plan.task(ordinal)[0]].condition.name == "hint"]
    return found[:count]


def played(plan, service, folder, leases, breaker=None, in_flight=4):
    """The sink after these leases, each played by a worker's own runner."""
    with_store = EpisodeStore(folder)
    sink = ResultSink(with_store, plan, breaker)

    async def play():
        for ordinals in leases:
            async for batch in EpisodeRunner(plan, {"uniform": service}, in_flight).play(ordinals):
                sink.add(batch)

    asyncio.run(play())
    return sink


def stored(sink, folder):
    sink.store.close()
    return Counter(episodes(folder).collect()["ending"].to_list())


@pytest.mark.parametrize("lease", [1, 3, 60])
def test_twenty_refusals_and_nothing_else_stop_a_model_and_store_nothing(plan, tmp_path, lease):
    """Held back over leases of any size, with fewer episodes in flight than refusals are needed."""
    pending = under_hint(plan, 60)
    leases = [pending[first : first + lease] for first in range(0, len(pending), lease)]
    sink = played(plan, Service(), tmp_path, leases)

    reason = sink.breaker.stop_reasons["uniform"]
    assert "under hint" in reason and reason.endswith("HTTP 400: no pictures here")
    sink.store_held_back()
    assert stored(sink, tmp_path) == {} and sink.stored_count == 0


def test_each_condition_is_judged_by_its_own_requests(plan, tmp_path):
    """Nineteen refusals under each of two conditions stop nobody; they are stored once nothing more comes."""
    queue = plan.pending(())["builtin"][: 2 * (REFUSALS_TO_STOP - 1)]
    sink = played(plan, Service(), tmp_path, [queue])

    assert not sink.breaker.stop_reasons and sink.stored_count == 0
    sink.store_held_back()
    assert stored(sink, tmp_path) == {"unprocessable": len(queue)}


@pytest.mark.parametrize("other", [None, Overflow("too long"), Refused("content filter")])
def test_one_other_outcome_releases_what_was_held_back_and_each_is_stored_once(plan, tmp_path, other):
    late = Service(lambda number: other if number == 15 else Unprocessable("bad request"))
    cell = under_hint(plan, 50)
    sink = played(plan, late, tmp_path, [cell[:10], cell[10:30], cell[30:]])

    assert not sink.breaker.stop_reasons
    found = stored(sink, tmp_path)
    assert found["unprocessable"] >= 48 and found.total() == sink.stored_count == 50
    assert episodes(tmp_path).collect()["key"].n_unique() == 50


def test_unreadable_pictures_are_no_refusal_of_the_model_and_no_sign_that_it_answers(plan, tmp_path):
    pictures = Service(lambda number: UnprocessablePicture("a.jpg: broken"))
    sink = played(plan, pictures, tmp_path, [range(40)])

    assert sink.stored_count == 40 and not sink.breaker.stop_reasons and not sink.breaker.answering_groups


def test_a_model_that_has_answered_in_an_earlier_attempt_is_not_stopped_by_what_is_left(plan, tmp_path):
    """``--retry unprocessable`` asks just those again that it refused."""
    breaker = CircuitBreaker([("uniform", "zero-shot", "mcqa"), ("uniform", "hint", "mcqa")])
    sink = played(plan, Service(), tmp_path, [range(40)], breaker)

    assert not breaker.stop_reasons and stored(sink, tmp_path) == {"unprocessable": 40}
