"""``play``: a person plays the benchmark in a browser, into a run folder like a model's.

The pending episodes are played on the page one after another; each is stored durably before the next one. The episode runner
is the same as for models.
"""

import asyncio
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from aiohttp import web

from actors.playing.episode_runner import EpisodeRunner
from envs.chance import chance
from envs.plural import pluralize
from envs.samples import BadData
from orchestrator.cli.options import Overrides, Update, required_name
from orchestrator.datasets.staging import fetch_lines
from orchestrator.execution.attempt import Attempt, open_attempt
from orchestrator.object_store.run_location import open_location
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from orchestrator.report.tables.formats import show
from orchestrator.report.tables.paper_tables import result_tables
from orchestrator.view.loopback import serving
from proactive_people.pages import FormPage
from proactive_people.person import Person, Unfinished, check_name
from sweeps.load import build
from sweeps.spec import Sweep
from sweeps.sweep_file import override_key, read_sweep


def play(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="The benchmark folder, or a sweep file to play as it stands.")
    ],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Who plays; the model is human-NAME.")],
    scenarios: Annotated[str, typer.Option(help="Names joined by commas, or all.")] = "",
    conditions: Annotated[str, typer.Option(help="Names joined by commas, played one after the other.")] = "",
    samples: Annotated[int | None, typer.Option(min=1, help="Samples of each scenario, drawn by seed.")] = None,
    set_: Overrides = [],  # noqa: B006
    output: Annotated[str, typer.Option(metavar="DIR", help="The run folder (default outputs/play-NAME).")] = "",
    update: Update = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
) -> None:
    """Show a person exactly what a model is sent, question by question, and store the answers as a run.

    The page is served on loopback only. Stop with Ctrl-C; rerun the same command to resume.
    """
    limit = [] if samples is None else [f"selection.limit={samples}"]
    selected = {"scenarios": scenarios, "conditions": conditions}
    keys = {key: "all" if text == "all" else text.split(",") for key, text in selected.items() if text}
    sweep = personal_sweep(data, name, keys, [*limit, *set_], output)
    plan = build_plan(sweep)
    with (
        open_location(required_name(sweep.output)) as location,
        open_attempt(sweep, plan, location.folder, print, update) as attempt,
    ):
        outcome = attempt.run(play=lambda episodes: sit(episodes, port))
    if not outcome.interrupted:
        show(*result_tables(outcome.rows))
        print(f"Compare with models: proactive-sweep compare {shlex.quote(sweep.output)} OTHER_RUN")
    raise typer.Exit(location.exit_code(outcome.exit_code))


def personal_sweep(data: str, name: str, keys: dict[str, Any], overrides: list[str], output: str = "") -> Sweep:
    """Return the sweep of a data folder or file with this person as its only model; raises SweepError."""
    check_name(name)
    person = {"name": f"human-{name}", "source": f"human:{name}", "backend": "human"}
    table = _table(data) | keys | {"models": [person], "protocol": "mcqa", "tracking": {"uri": "none"}}
    for override in overrides:
        override_key(table, override)
    return build(table, data).model_copy(update={"output": output or f"outputs/play-{name}"})


def _table(data: str) -> dict[str, Any]:
    """Return the table of a sweep file without its models; for a data folder, a table that names it."""
    if "://" in data or Path(data).is_dir():
        return {"name": "play", "data": data}
    if not data.endswith(".toml") and not Path(data).is_file():
        raise BadData(f"data folder {data} not found; `proactive-sweep data demo {data}` draws a small one")
    table = read_sweep(Path(data))
    left_out = ("model", "models", "only", "judge", "open_ended", "protocol", "protocols", "train", "output")
    return {key: value for key, value in table.items() if key not in left_out}


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
        answers = len(person.unfinished.stored.replies)
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
