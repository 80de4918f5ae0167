"""Answers are labeled blind, in the drawn order, and every command of docs/labeling.md works in its printed order."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from urllib.parse import urlencode

import polars as pl
import pytest
from sitting import app
from typer.testing import CliRunner

from actors.engine.baselines import Baseline
from orchestrator.report.read_run import read_run
from orchestrator.storage.lock import WRITER
from orchestrator.view import loopback
from proactive_people import label_command
from proactive_people.draw import FILE, draw_answers, extend_draw, read_draw
from proactive_people.labels import OptionLabel, append_labels, read_labels
from tests.conftest import ROOT
from tests.orchestrator.report import runs
from tests.orchestrator.view.served import serve_page
from tests.orchestrator.view.visitor import Visitor


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def judged_run(demo_data, tmp_path_factory):
    """A run of two policies whose answers the rule judge has read."""
    options = {"protocol": "oeg", "judge": {"model": "rule-judge"}, "scenarios": ["ROD", "QD"]}
    wanted = runs.sweep(demo_data, ["ask-properly", "refuse"], ["zero-shot"], **options)
    folder = runs.play_sweep(tmp_path_factory.mktemp("labels") / "run", wanted)
    return runs.judge_answers(folder, wanted, wanted.judge, Baseline("rule-judge"))


@contextmanager
def labeling(page):
    """Serve the page during the block; yield a visitor."""
    with serve_page(page) as address:
        yield Visitor(address)


def open_page(folder, number=6, name="ada"):
    run = read_run(folder)
    drawn = extend_draw(run, number, False)
    return label_command.LabelPage(folder, name, list(label_command._answers(run, list(drawn)).values()))


def send(visitor, **fields):
    return visitor.ask("POST", f"{visitor.path}answer", {"Origin": f"http://{visitor.host}"}, urlencode(fields))


def test_an_answer_is_labeled_blind_and_shown_afterwards(judged_run):
    with labeling(page := open_page(judged_run)) as visitor:
        for number, answer in enumerate(page.answers, 1):
            seen = visitor.look()
            assert f"<b>{number}</b> of {len(page.answers)}" in seen and answer.options[0] in seen
            assert answer.model not in seen and "judge says" not in seen and "right answer" not in seen
            assert "dot" not in re.sub(r"<style>.*</style>", "", seen, flags=re.DOTALL)
            assert send(visitor, n=number, label=number - 1, note="it's <b>odd</b>") == 303
            again = visitor.look(f"?n={number}")
            assert f"The model is {answer.model}" in again and "the judge says" in again
            assert "it&#39;s &lt;b&gt;odd&lt;/b&gt;" in again and "<b>odd" not in again
        assert "All answers are labeled" in visitor.look()
    labels = read_labels(judged_run)
    assert [labels[answer.key, "ada"].label for answer in page.answers] == list("012345")
    assert {label.note for label in labels.values()} == {"it's <b>odd</b>"} and page.done == 6
    assert open_page(judged_run).done == 6, "another sitting goes on where this one ended"
    assert [a.key for a in open_page(judged_run, name="bo").answers] == [a.key for a in page.answers], "for everybody"


@pytest.mark.parametrize(
    ("fields", "status"), [({}, 400), ({"n": 1, "label": 77}, 400), ({"n": 1, "label": "x" * 20_000}, 413)]
)
def test_what_is_no_label_is_refused(fields, status, judged_run):
    with labeling(page := open_page(judged_run, name=f"bad-{status}")) as visitor:
        assert send(visitor, **fields) == status and page.done == 0


def test_cells_take_turns_and_disputed_answers_with_the_others():
    keys = [f"{cell}/{n}" for cell in "ab" for n in range(10)]
    answers = pl.DataFrame({"key": keys, "cell": [key[0] for key in keys]})
    first = draw_answers(answers, {}, 6, 1)
    second = draw_answers(answers, dict.fromkeys(first, ""), 24, 1)
    drawn = draw_answers(answers, {"a/1": ""}, 4, 3, ["a/0", "a/1", "b/9"])

    assert sorted(key[0] for key in first) == list("aaabbb") and sorted(first + second) == keys
    assert draw_answers(answers, {}, 6, 2) != first
    assert {"a/0", "b/9"} < set(drawn) and sorted(key[0] for key in drawn) == list("aabb")


def test_a_draw_grows_and_keeps_its_order(judged_run):
    run = read_run(judged_run)
    few = list(extend_draw(run, 8, False))
    more = list(extend_draw(run, 12, False))

    assert more[: len(few)] == few and len(more) == 12 and list(read_draw(judged_run)) == more
    assert list(extend_draw(run, 3, False)) == more, "nothing is drawn back"
    (judged_run / FILE).write_text((judged_run / FILE).read_text().replace(more[0], "an answer that is gone"))
    assert list(extend_draw(run, 11, False)) == more[1:]
    (judged_run / FILE).write_text("x")
    assert "remove it, and draw again" in " ".join(call("label", judged_run, "--as", "ada").output.split())
    (judged_run / FILE).unlink()


def test_mistakes_are_one_sentence(judged_run, demo_data, tmp_path):
    closed = runs.play_sweep(tmp_path / "closed", runs.sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["QD"]))
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / WRITER).touch()
    (foreign := tmp_path / "x.csv").write_text("key,labeler,label\nnobody,ada,1\n")
    for arguments, message in {
        (closed, "--as", "ada"): "has no open-ended answers",
        (judged_run, "--as", "a b"): "must be letters, digits",
        (judged_run, "--import", foreign): "which is not an episode of",
        (judged_run, "--export", copy): "is a folder; name a file",
        (judged_run, "--export", "x.csv", "--as", "nobody"): "has no labels of nobody; `label DIR --as NAME`",
        (copy, "--as", "ada"): "labels are kept in a folder of this machine",
    }.items():
        done = call("label", *arguments)
        assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output
        assert "Traceback" not in done.output


def test_the_page_on_labels_works_in_its_printed_order(judged_run, tmp_path, monkeypatch):
    """Each command of docs/labeling.md is typed, with this run for the demo's; two people label in the browser."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "labeling.md").read_text("utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    commands = [shlex.split(line.replace("outputs/demo-oeg", str(judged_run))) for line in lines]

    async def label_all(page, port):
        number = "0" if page.labeler == "ann" else "none"
        labels = [OptionLabel(key=answer.key, labeler=page.labeler, label=number) for answer in page.answers]
        append_labels(page.folder, labels)
        page.labels |= {label.key: label for label in labels}

    monkeypatch.setattr(loopback, "serve_until_stopped", label_all)
    typed = []
    for program, *arguments in commands:
        assert program == "proactive-sweep"
        if arguments[0] == "run" or "--judge" in arguments:
            continue  # the run is there, and a second judge needs a model
        done = call(*arguments)
        assert done.exit_code == 0 and "Traceback" not in done.output, (arguments, done.output)
        typed.append((arguments[0], done.output))

    assert [name for name, _ in typed].count("label") >= 4 and typed[-2][0] == "judge"
    assert any("labels equal, kappa" in output for _, output in typed)
