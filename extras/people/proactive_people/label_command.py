"""``label``: people label open-ended answers blind on a page, one after another, and see how far they agree.

The page shows what a judge reads: the answer and the options. Model, verdict and right answer stay hidden until the label is
stored.
"""

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from aiohttp import web
from pydantic import ValidationError

from envs.errors import RunFolderError
from envs.types import Sample
from orchestrator.cli.options import MovedData, RunFolder
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.storage import safe_write
from orchestrator.storage.lock import WRITER
from orchestrator.storage.verdict_store import final_replies
from orchestrator.view import loopback
from proactive_people.draw import extend_draw, read_draw
from proactive_people.labels import FILE, NONE, OptionLabel, agreements, append_labels, from_csv, read_labels, to_csv
from proactive_people.pages import FormPage
from proactive_people.person import check_name


def label(
    folder: RunFolder,
    data: MovedData = None,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Label under this name.")] = "",
    draw: Annotated[int, typer.Option(min=0, metavar="N", help="Draw answers until N are drawn (default 200).")] = 0,
    active: Annotated[
        bool, typer.Option("--active", help="With --draw: half of the answers are ones on which two judges differ.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all labels, or those of --as, as CSV, and end.")
    ] = None,
    add: Annotated[Path | None, typer.Option("--import", metavar="FILE", help="Add labels of a CSV, and end.")] = None,
    agreement: Annotated[bool, typer.Option("--agreement", help="Show how far people agree, and end.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The page's port (default: any free one).")] = 0,
) -> None:
    """Label drawn answers of a run in a browser, without seeing the model, the verdict or the right answer.

    The page is served on loopback only. Stop with Ctrl-C; rerun the command to go on.
    """
    if (folder / WRITER).exists():  # the next update of the copy would delete the labels
        raise RunFolderError("labels are kept in a folder of this machine; copy the run from its bucket and name that")
    if agreement:
        _show_agreement(folder)
        return
    run = read_run(folder, data)
    if add is not None:
        _import(run, add)
    elif export is not None:
        _export(run, export, name)
    else:
        check_name(name)
        _open_page(run, name, draw, active, port)


class Answer(NamedTuple):
    key: str
    model: str
    text: str
    sample: Sample
    verdict: str
    """The verdict of the run's judge, in words; empty if it has not read the answer."""

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
        number = loopback.parse_number(request.query.get("n") or str(next(unlabeled, len(self.answers) + 1)))
        if not number:
            raise web.HTTPBadRequest
        answer = self.answers[number - 1] if number <= len(self.answers) else None
        label = self.labels.get(answer.key) if answer else None
        return self.render(number=number, total=len(self.answers), answer=answer, label=label)

    async def receive(self, form: dict[str, str]) -> web.Response:
        """Store a label, and open the next answer without one."""
        number = loopback.parse_number(form.get("n", ""))
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


def _open_page(run: RunData, name: str, number: int, active: bool, port: int) -> None:
    page = LabelPage(run.folder, name, list(_answers(run, list(extend_draw(run, number, active))).values()))
    asyncio.run(loopback.serve_until_stopped(page, port))
    print(f"{page.done:,} of {len(page.answers):,} answers labeled by {name}")


def _answers(run: RunData, keys: list[str]) -> dict[str, Answer]:
    """Return the answers with these keys in this order; raises RunFolderError if their samples are not there."""
    rows = {row["key"]: row for row in run.episodes.filter(run.episodes["key"].is_in(keys)).iter_rows(named=True)}
    replies, words = final_replies(run.folder, keys), {True: "yes", False: "no", None: "nothing"}
    verdicts = {
        key: f"category {words[category]}, suggestion {words[asks]}"
        for key, category, asks in run.verdicts.select("key", "category", "suggestion").iter_rows()
    }
    answers = {}
    for key in keys:
        sample = run.samples.get(rows[key]["scenario"], {}).get(rows[key]["sample_id"]) if key in rows else None
        if sample is None:
            raise RunFolderError(f"the data of {run.folder} have no sample of {key}; name their folder by --data")
        answers[key] = Answer(key, rows[key]["model"], replies.get(key, ""), sample, verdicts.get(key, ""))
    return answers


def _show_agreement(folder: Path) -> None:
    pairs = list(agreements(read_labels(folder).values()))
    for pair in pairs:
        kappa = "-" if pair.kappa is None else f"{pair.kappa:.2f}"
        print(f"{pair.first} and {pair.second}: {pair.equal:,} of {pair.both:,} labels equal, kappa {kappa}")
    if not pairs:
        print("no answer has the labels of two people")


def _export(run: RunData, file: Path, name: str) -> None:
    """Write all labels, or those of one person; raises RunFolderError if there are none, or for a folder."""
    if file.is_dir():
        raise RunFolderError(f"{file} is a folder; name a file")
    labels = {key: label for key, label in read_labels(run.folder).items() if name in ("", label.labeler)}
    if not labels:
        raise RunFolderError(
            f"{run.folder} has no labels{f' of {name}' if name else ''}; `label DIR --as NAME` makes some"
        )
    stored = set(run.episodes["key"])
    keys = [key for key in dict.fromkeys(key for key, _ in labels) if key in stored]
    samples = {key: answer.sample for key, answer in _answers(run, keys).items()}
    safe_write.write(file, to_csv(labels.values(), samples, read_draw(run.folder)).encode())
    print(f"{len(labels):,} labels in {file}; `proactive-sweep judge {run.folder} --labels {file}` corrects the judge")


def _import(run: RunData, file: Path) -> None:
    """Add the labels of a CSV file; raises RunFolderError for a label of an answer that is not stored."""
    labels, stored = from_csv(file), set(run.episodes["key"])
    if unknown := [label.key for label in labels if label.key not in stored]:
        raise RunFolderError(
            f"{file} labels {unknown[0]}, which is not an episode of {run.folder}; name the folder that has it"
        )
    append_labels(run.folder, labels)
    print(f"{len(labels):,} labels added to {run.folder / FILE}")
