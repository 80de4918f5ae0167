"""A sitting in this process, and a visitor who uses its page over HTTP as a browser would."""

from __future__ import annotations

import asyncio
import html
import os
import queue
import re
import signal
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from actors.engine.backend import Message, Reply, Request
from actors.engine.baselines import Baseline
from actors.playing.episode_runner import EpisodeRunner
from orchestrator.cli.main import build_app
from orchestrator.execution.attempt import open_attempt
from orchestrator.execution.score import AttemptOutcome
from orchestrator.execution.stop_signals import StopSignals
from orchestrator.planning.build_plan import build_plan
from proactive_people.label_command import label
from proactive_people.play_command import order, personal_sweep, play, sit
from sweeps.spec import Sweep
from tests.orchestrator.view.visitor import Visitor

CONDITIONS = ("zero-shot", "hint", "history")
app = build_app()
"""The command line of the core with the commands of this extra."""
app.command("play")(play)
app.command("label")(label)


def person(data: Path, conditions: str = "zero-shot", limit: int = 1, **settings: str) -> Sweep:
    """The sweep that ``play DATA --as ada`` plays."""
    sets = [f"selection.limit={limit}", *(f"{key}={value}" for key, value in settings.items())]
    return personal_sweep(str(data), "ada", {"conditions": conditions.split(",")}, sets)


class Player(Visitor):
    """A visitor who answers questions."""

    def post(self, question: object, choice: object) -> int:
        """Send an answer, and take the page that follows."""
        form = urlencode({"question": question, "choice": choice})
        status = self.ask("POST", self.path + "answer", {"Origin": f"http://{self.host}"}, form)
        if status == 303:
            self.look(self.headers["Location"].removeprefix(self.path))
        elif status == 200:
            self.page = self.bodies[-1].decode()
        return status

    def say(self, reply: str) -> int:
        """Choose the first option of this text."""
        return self.post(self.number, self.options.index(reply))

    def picture(self) -> bytes:
        """The last picture of the page."""
        return b64decode(self.sources[-1].removeprefix("data:image/png;base64,"), validate=True)

    @property
    def number(self) -> str:
        return re.findall(r'name="question" value="(\d+)"', self.page)[0]

    @property
    def options(self) -> list[str]:
        return _texts(r'<span class="option">(.*?)</span></label>', self.page)

    @property
    def texts(self) -> list[str]:
        """The texts of all messages."""
        return _texts(r'<div class="text">(.*?)</div>', self.page)

    @property
    def sources(self) -> list[str]:
        return re.findall(r'<img src="(.*?)"', self.page)


def _texts(pattern: str, page: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(pattern, page, re.DOTALL)]


class Sitting:
    """What the thread that plays tells the test."""

    def __init__(self) -> None:
        self.said: queue.Queue[str] = queue.Queue()
        self.lines: list[str] = []
        self.outcome: AttemptOutcome | None = None
        self.problem: BaseException | None = None

    def visitor(self) -> Player:
        """Return a visitor who has the address."""
        while not (self.lines and self.lines[-1].startswith("open http")):
            self.lines.append(self.said.get(timeout=60))
        visitor = Player(self.lines[-1].split()[1])
        visitor.look()
        return visitor


@contextmanager
def sitting(sweep: Sweep, output: Path) -> Iterator[Sitting]:
    """A sitting that goes on during the block, and is stopped by a signal at its end where it has not ended."""
    session = Sitting()

    def run(signals: StopSignals) -> None:
        try:
            with open_attempt(sweep, build_plan(sweep), output, session.said.put, signals=signals) as attempt:
                session.outcome = attempt.run(play=sit)
        except BaseException as problem:
            session.problem = problem
            session.said.put("open http://failed/")

    with StopSignals() as signals:
        thread = threading.Thread(target=run, args=(signals,))
        thread.start()
        try:
            yield session
        finally:
            thread.join(0.05)
            for _ in range(2):
                if thread.is_alive():
                    os.kill(os.getpid(), signal.SIGTERM)  # as Ctrl-C, which what runs in the background ignores
                    thread.join(30)
            assert not thread.is_alive(), "it does not stop"
    if session.problem is not None:
        raise session.problem


class Recorder(Baseline):
    """The oracle, which records its requests and replies."""

    def __init__(self) -> None:
        super().__init__("oracle")
        self.turns: list[tuple[Request, str]] = []

    async def reply(self, request: Request) -> Reply:
        answer = await super().reply(request)
        self.turns.append((request, answer.text))
        return answer


def oracle_turns(sweep: Sweep) -> list[tuple[Request, str]]:
    """Return every question of the sitting and the oracle's reply to it."""
    plan, recorder = build_plan(sweep), Recorder()
    (name,) = (model.name for model in sweep.models)
    runner = EpisodeRunner(plan, {name: recorder}, in_flight=1)

    async def play_all() -> None:
        for ordinal in order(plan, plan.pending(())[name], name):
            async for _ in runner.play([ordinal]):
                pass

    asyncio.run(play_all())
    return recorder.turns


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]
