"""A session: the pending episodes of a sweep whose only model is a person, played on the page one after another.

Each episode is stored durably before the next one. The episode runner is the same as for models.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from aiohttp import web

from actors.playing.episode_runner import EpisodeRunner
from envs.chance import chance
from envs.plural import pluralize
from orchestrator.datasets.staging import fetch_lines
from orchestrator.execution.attempt import Attempt
from orchestrator.planning.plan import Plan
from orchestrator.view.loopback import serving
from proactive_people.pages import FormPage
from proactive_people.person import Person, Unfinished


class PlayPage(FormPage):
    """The page with the person's open question and the progress."""

    def __init__(self, person: Person, done: int, total: int) -> None:
        super().__init__("question.html.j2")
        self.person, self.done, self.total = person, done, total

    async def show(self, request: web.Request) -> web.Response:
        return self.render(question=await self.person.question_after(0), late="late" in request.query)

    async def receive(self, form: dict[str, str]) -> web.Response:
        """Accept an answer and redirect to the next question; an answer to a closed question has no effect."""
        try:
            number, choice = int(form["question"]), int(form["choice"])
        except (KeyError, ValueError):
            raise web.HTTPBadRequest from None
        is_accepted = self.person.answer(number, choice)
        following = await self.person.question_after(number) if is_accepted else None
        if is_accepted and following is None:
            return self.render(question=None, late=False)  # the server stops, so a redirect would fail
        raise web.HTTPSeeOther(f"/{self.token}/" + ("" if is_accepted else "?late"))


def sit(attempt: Attempt, port: int = 0) -> None:
    """Play the pending episodes until all are stored or a signal stops them; raises SweepError if the port is taken.

    ``port`` 0 takes any free one.
    """
    start = time.perf_counter()
    asyncio.run(_sit(attempt, port))
    attempt.seconds = time.perf_counter() - start


def order(plan: Plan, ordinals: Sequence[int], name: str) -> list[int]:
    """Return the ordinals condition by condition, samples of all scenarios shuffled within each, by seed and name.

    The order of pending episodes does not depend on the stored ones.
    """
    conditions = list(dict.fromkeys(cell.condition.name for cell in plan.cells))

    def rank(ordinal: int) -> tuple[int, float, int]:
        index, sample = plan.task(ordinal)
        random = chance(plan.seed, sample.scenario, sample.id, f"order for {name}").random()
        return conditions.index(plan.cells[index].condition.name), random, ordinal

    return sorted(ordinals, key=rank)


async def _sit(attempt: Attempt, port: int) -> None:
    plan, (model,) = attempt.plan, attempt.sweep.models
    person = Person(fetch_lines(attempt.sweep), Unfinished(attempt.output))
    ordinals = order(plan, attempt.pending[model.name], model.name)
    page = PlayPage(person, done=plan.total - len(ordinals), total=plan.total)
    try:
        async with serving(page, port) as address:
            playing = asyncio.create_task(_play(attempt, person, page, ordinals, model.name))
            attempt.signals.stop_with(playing.cancel)
            attempt.say(f"open {address} in a browser on this machine; Ctrl-C stops, rerun the command to resume")
            await asyncio.wait({playing})
            attempt.interrupted = playing.cancelled()
            await person.end()
    finally:
        await person.close()
    if attempt.interrupted:
        answers = len(person.unfinished.replies)
        within = f" and {pluralize(answers, 'answer')} of the next one" if answers else ""
        episodes = f"{page.done:,} of {pluralize(page.total, 'episode')}{within}"
        print(f"stopped: {episodes} are stored; rerun the command to resume", file=sys.stderr)
    else:
        playing.result()


async def _play(attempt: Attempt, person: Person, page: PlayPage, ordinals: Sequence[int], name: str) -> None:
    """Play the episodes in order; each is stored durably before the next one."""
    runner = EpisodeRunner(attempt.plan, {name: person}, in_flight=1)
    for ordinal in ordinals:
        person.unfinished.open(attempt.plan.key(*attempt.plan.task(ordinal)))
        async for batch in runner.play([ordinal]):
            attempt.store.append(batch)
            attempt.store.flush()
        person.unfinished.close()
        page.done += 1
