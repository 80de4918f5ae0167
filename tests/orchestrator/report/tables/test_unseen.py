"""Probes expose a model that reads only the question, and no probe counts as the sample's own picture."""

from __future__ import annotations

import polars as pl
import pytest

from actors.engine.backend import Backend, Reply, Request
from envs.render import GREY, Renderer
from envs.scenario import suggestions
from envs.types import NO_PICTURE
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.pictures import ShownPictures
from orchestrator.report.html import write_page
from orchestrator.report.html.findings import find_headlines
from orchestrator.report.html.thumbnails import parse_image_key
from orchestrator.report.measures.endings import EndingKind, endings
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.paper.published import foreign_scenarios
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.unseen import unseen_sentence, unseen_table
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes
from tests.orchestrator.report.runs import play_sweep, sweep

PROBES = ["blank", "swapped", "text-only"]
MODEL = {"source": "x", "backend": "transformers", "gpus": 0}


class Reader(Backend):
    """A model that knows every answer from the question alone."""

    async def reply(self, request: Request) -> Reply:
        now = request.situation
        return Reply(
            now.sample.answer if now.state.turn or now.sample.scenario != "ROD" else suggestions(now.view.options)[0]
        )

    async def close(self) -> None:
        return None


class Looker(Reader):
    """A model that names what its picture shows, or a wrong category if that is not among the categories."""

    def __init__(self, plan) -> None:
        self.answers = {}
        for sample in (sample for samples in plan.samples.values() for sample in samples):
            for path in ShownPictures(plan).paths(
                plan.cells[0].model_copy(update={"condition": plan.cells[0].condition}), sample
            ):
                self.answers[path] = sample.answer

    async def reply(self, request: Request) -> Reply:
        now = request.situation
        if now.sample.scenario == "ROD" and not now.state.turn:
            return Reply(suggestions(now.view.options)[0])
        (picture,) = request.messages[-1].images or (NO_PICTURE,)
        answer = "" if picture.grey else self.answers.get(picture.path, "")
        wrong = next(category for category in now.view.categories if category != now.sample.answer)
        return Reply(answer if answer in now.view.categories else wrong)


@pytest.fixture(scope="module")
def probed_run(demo_data, tmp_path_factory):
    models = [{"name": "reader", **MODEL}, {"name": "looker", **MODEL}, "guess"]
    wanted = sweep(demo_data, models, ["zero-shot", *PROBES], scenarios=["ROD", "QD", "COCO"])
    backends = {"reader": Reader(), "looker": Looker(build_plan(wanted))}
    return play_sweep(tmp_path_factory.mktemp("probed") / "run", wanted, backends=backends)


def test_accuracy_under_probes_shows_who_reads_question_only(probed_run):
    run_data = read_run(probed_run)
    accuracy = {(r["model"], r["condition"]): r["acc"] for r in estimate(run_data).averages.iter_rows(named=True)}

    assert [accuracy["reader", name] for name in ("zero-shot", *PROBES)] == [100.0] * 4
    assert [accuracy["looker", name] for name in ("zero-shot", *PROBES)] == [100.0, 0.0, 0.0, 0.0]


def test_unseen_table_and_sentence(probed_run):
    run_data = read_run(probed_run)
    table = unseen_table(run_data)
    rows = {name.text: [cell.text for cell in cells] for name, *cells in table.rows}

    assert list(rows)[4:8] == ["reader, zero-shot", "reader, blank", "reader, swapped", "reader, text-only"]
    assert rows["reader, text-only"] == ["100.0 / 0.0", "100.0 / 100.0", "100.0 / 100.0", "100.0 / 66.7"]
    assert rows["looker, swapped"] == ["0.0 / 0.0"] * 4
    assert [column.name for column in table.columns[1:]] == ["ROD", "QD", "COCO", "avg of 3"] and table.ranked == 8
    figure, sentence = unseen_sentence(run_data)
    assert figure == "50.0%"
    assert sentence.startswith(
        "of episodes end right under blank, without the sample's picture (swapped 50.0%, text-only 50.0%)"
    )
    assert (
        "and 100.0% with it; means over scenarios of 2 models" in sentence
        and "Highest: reader in COCO, 100.0% (100.0% with it)" in sentence
    )
    assert [
        headline.text
        for headline in find_headlines(run_data)
        if headline.figure == "50.0%" and "under blank" in headline.text
    ]


def test_probes_show_their_pictures(demo_data):
    plan = build_plan(sweep(demo_data, [{"name": "m", **MODEL}], ["zero-shot", *PROBES]))
    again = build_plan(sweep(demo_data, [{"name": "other", **MODEL}], ["swapped"]))
    pictures, renderer = ShownPictures(plan), Renderer(demo_data)
    for cell in plan.cells:
        for sample in plan.cell_samples(cell):
            paths = pictures.paths(cell, sample)
            if cell.condition.name == "text-only":
                assert paths == frozenset()
            elif cell.condition.name == "swapped":
                other_sample = plan.samples_by_id[cell.scenario][sample.swapped.id]
                assert paths == {sample.swapped.image.path} and other_sample.answer != sample.answer
                assert sample.swapped.digest == other_sample.digest
                assert again.samples_by_id[cell.scenario][sample.id].swapped == sample.swapped, (
                    "the same for every model"
                )
    ref = parse_image_key("coco2014/val2014/COCO_val2014_000000000000.jpg@1.0,2.0,30.5,40.0#grey^16")
    assert (ref.grey, ref.short_edge, ref.crop) == (True, 16, (1.0, 2.0, 30.5, 40.0))
    sample = plan.samples["COCO"][0]
    grey = renderer.picture(type(ref)(sample.image, (0.0, 0.0, 20.0, 10.0), grey=True))
    assert grey.size == (20, 10) and set(grey.get_flattened_data()) == {GREY}


def test_keys_depend_on_probe(demo_data):
    table = {"models": [{"name": "m", **MODEL}], "scenarios": ["QD"]}
    plan = build_plan(sweep(demo_data, conditions=["zero-shot", *PROBES], **table))
    keys = [[key.rsplit("-", 1)[1] for key in plan.keys(index)] for index in range(4)]
    assert len({key for cell_keys in keys for key in cell_keys}) == 40, "every probe has keys of its own"
    alone = build_plan(sweep(demo_data, conditions=["zero-shot"], **table))
    assert list(alone.keys(0)) == list(plan.keys(0)), "and no other key changes"
    fewer = sorted(sample.id for sample in plan.samples["QD"])[:9]
    smaller = build_plan(sweep(demo_data, conditions=["swapped"], seed=0, selection={"ids": {"QD": fewer}}, **table))
    assert list(smaller.keys(0)) == list(plan.keys(2))[:9], "a smaller selection draws the same pictures"
    reseeded = build_plan(sweep(demo_data, conditions=["swapped"], seed=1, **table))
    assert reseeded.samples["QD"][0].swapped is not None


def test_report_does_not_take_probe_for_sample_picture(probed_run, demo_data):
    run_data = read_run(probed_run)
    kinds = endings(run_data).filter(pl.col("condition").is_in(PROBES))
    assert EndingKind.GUESSED_CLEAR.value not in set(kinds["kind"])
    assert {"demo" in reason for reason in foreign_scenarios(run_data).values()} == {True}
    page = write_page(read_run(probed_run), data=demo_data)
    text = page.read_text()
    assert "none was shown" in text and "under blank" in text


def test_unseen_table_says_what_its_figures_are(probed_run):
    run_data = read_run(probed_run)
    table = unseen_table(run_data)

    assert (table.name, table.columns[0].name) == ("unseen", "model")
    assert table.title == (
        "right in the end / at the first turn, percent, where the sample's own picture is not shown, and in zero-shot"
    )
    assert table.notes == (
        "50.0% of episodes end right under blank, without the sample's picture (swapped 50.0%, text-only 50.0%), and 100.0% with "
        "it; means over scenarios of 2 models. Highest: reader in COCO, 100.0% (100.0% with it).",
        "a guess among four categories is right in 25%; in ROD no answer counts at the first turn",
    )
    assert table.rows[0][0].text == "looker, zero-shot" and table.rows[-1][0].text == "guess, text-only"
    assert table.numbers.filter(scenario="avg").height == 12 and table.numbers.height == 48
    assert {cell.style for row in table.rows for cell in row} == {""}
    alone = replace_episodes(run_data, [episode(0, "m/QD/zero-shot")])
    empty = unseen_table(alone)
    assert (empty.name, empty.title, empty.rows) == ("unseen", "", ()), "no probe was played"
    assert unseen_sentence(alone) == ("", "")


def test_a_probe_of_one_model_is_compared_with_its_own_zero_shot(probed_run):
    rights = {"m/QD/zero-shot": 3, "m/ROD/zero-shot": 2, "m/QD/blank": 1, "m/ROD/blank": 2, "n/QD/swapped": 4}
    rows = [episode(n, cell, correct=n < right) for cell, right in rights.items() for n in range(4)]
    run = replace_episodes(read_run(probed_run), [*rows, *(episode(n, "guess/QD/blank") for n in range(4))])

    assert unseen_sentence(run) == (
        "37.5%",
        "of episodes end right under blank, without the sample's picture, and 62.5% with it; means over scenarios of 1 model. "
        "Highest: m in ROD, 50.0% (50.0% with it).",
    )
