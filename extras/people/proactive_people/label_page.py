"""The page on which a person labels answers blind, one after another.

It shows what a judge reads: the answer and the options. Model, verdict and right answer stay hidden until the label is stored.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

from aiohttp import web
from pydantic import ValidationError

from envs.types import Sample
from orchestrator.view.loopback import parse_number
from proactive_people.labels import NONE, OptionLabel, append_labels, read_labels
from proactive_people.pages import FormPage


class Answer(NamedTuple):
    key: str
    model: str
    text: str
    sample: Sample
    verdict: str
    """What the run's judge says; empty if it has not read the answer."""

    @property
    def options(self) -> tuple[str, ...]:
        return (*self.sample.options, *self.sample.categories)


class LabelPage(FormPage):
    """The page of one person, and the labels that she has given."""

    def __init__(self, folder: Path, labeler: str, answers: list[Answer]) -> None:
        super().__init__("label.html.j2")
        self.folder, self.labeler, self.answers = folder, labeler, answers
        stored = read_labels(folder)
        self.labels = {key: label for (key, name), label in stored.items() if name == labeler}

    @property
    def done(self) -> int:
        """Return how many of the answers have a label of this person."""
        return sum(answer.key in self.labels for answer in self.answers)

    async def show(self, request: web.Request) -> web.Response:
        unlabeled = (number for number, answer in enumerate(self.answers, 1) if answer.key not in self.labels)
        number = parse_number(request.query.get("n") or str(next(unlabeled, len(self.answers) + 1)))
        if not number:
            raise web.HTTPBadRequest
        answer = self.answers[number - 1] if number <= len(self.answers) else None
        label = self.labels.get(answer.key) if answer else None
        return self.render(number=number, total=len(self.answers), answer=answer, label=label)

    async def receive(self, form: dict[str, str]) -> web.Response:
        """Store a label, and open the next answer without one."""
        number = parse_number(form.get("n", ""))
        if not 1 <= number <= len(self.answers):
            raise web.HTTPBadRequest
        answer, choice = self.answers[number - 1], form.get("label", "")
        try:
            label = OptionLabel(
                key=answer.key, labeler=self.labeler, label=choice, note=form.get("note", ""), unsure="unsure" in form
            )
        except ValidationError:
            raise web.HTTPBadRequest from None
        if choice != NONE and int(choice) >= len(answer.options):
            raise web.HTTPBadRequest
        await asyncio.to_thread(append_labels, self.folder, [label])
        self.labels[answer.key] = label
        raise web.HTTPSeeOther(f"/{self.token}/")
