"""The page is one inert file, equal for equal folders, that opens with the answer; text of models appears as text only."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import polars as pl
import pytest

from orchestrator.report.html.page import build_page, list_facts, list_problems, write_page
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.answer import answer_sentences
from orchestrator.storage import checksums
from tests.orchestrator.report.runs import play_sweep, sweep, write_published_run
from tests.orchestrator.view.hostile_run import HostileModel, hostile_run


class Elements(HTMLParser):
    """A parser that collects elements with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def folder(demo_data, tmp_path_factory):
    return hostile_run(tmp_path_factory.mktemp("page") / "run", demo_data, "llava-ov-7b")


@pytest.fixture(scope="module")
def run_data(folder):
    return read_run(folder)


@pytest.fixture(scope="module")
def html(run_data):
    return write_page(run_data).read_text("utf-8")


def test_the_same_folder_gives_the_same_bytes(folder, html):
    assert write_page(read_run(folder)).read_text("utf-8") == html
    assert not list(folder.glob("*.tmp"))


def test_facts_of_open_ended_runs_and_of_edited_folders(demo_data, tmp_path):
    options = {"protocol": "oeg", "judge": {"model": "rule-judge"}, "scenarios": ["QD"]}
    unjudged = play_sweep(tmp_path / "oeg", sweep(demo_data, ["oracle"], ["zero-shot"], **options))
    assert "not judged yet" in list_facts(read_run(unjudged))["Judge"]
    folder = write_published_run(tmp_path / "run", ["llava-ov-7b"], ("zero-shot",), most=4, protocol="oeg")
    assert "a subset in ROD" in list_facts(read_run(folder))["Data"]
    before = list_facts(read_run(folder))["Program"]
    checksums.write(folder / "status.json", b'{"cells": [], "packages": ["ray"]}')
    assert list_facts(read_run(folder))["Program"] == before
    status = {"cells": [], "packages": {"ray": "9.9", "vllm": "1", "polars": "1"}, "commit": "0123456789abcd"}
    checksums.write(folder / "status.json", json.dumps(status).encode())
    facts = list_facts(read_run(folder))
    assert facts["Program"] == "vllm 1, ray 9.9, commit 0123456789ab" and "28 verdicts of 28 answers" in facts["Judge"]


def test_facts_and_problems_say_how_much_was_played(run_data):
    cell, size = run_data.planned.select("cell", "planned").row(0)
    planned = pl.when(cell=cell).then(2 * pl.col("planned")).otherwise("planned").alias("planned")
    unfinished = replace(run_data, planned=run_data.planned.with_columns(planned))
    played, facts = int(run_data.rows["finished"].sum()), list_facts(unfinished)
    assert facts["Played"].startswith(f"{played:,} of {played + size:,} ") and facts["Seed"] == str(run_data.sweep.seed)
    assert f"{size:,} episodes not played yet, in {cell}" in list_problems(unfinished)


def test_policy_allows_only_the_pages_own_style(html):
    assert not [tag for tag, _ in Elements(html).elements if tag == "script"]
    policy = next(a["content"] for _, a in Elements(html).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:; ") and "unsafe" not in policy and "http" not in policy
    style = re.search(r"<style>(.*?)</style>", html, re.S)[1]
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy


def test_page_makes_no_requests(html):
    for tag, attributes in Elements(html).elements:
        assert tag not in ("iframe", "object", "embed", "form", "base", "audio", "video")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), attributes


def test_replies_and_errors_are_text_and_not_markup(html):
    assert "<script>alert" not in html and ", such as " in html, "the warning quotes an unreadable reply"
    assert "<b>refused" not in html and "&lt;b&gt;refused" in html and "\u202e" not in html


def test_page_opens_with_the_answer_and_what_to_know_before_reading_on(run_data, html):
    page = build_page(run_data)
    answer, drawn = page["answers"]
    assert list(answer_sentences(run_data.rows, run_data.sweep, run_data.folder)) == [answer, drawn]
    assert answer.startswith("llava-ov-7b asks in ") and "drawn" in drawn and answer in html
    assert all(part in page["problems"][0] for part in ("name none of", "proactive-sweep view"))
    assert html.index('class="answer"') < html.index('class="problems"') < html.index('id="table-answer"')


def test_run_without_episodes_has_a_page(demo_data, tmp_path):
    wanted = sweep(demo_data, ["llava-ov-7b"], ["zero-shot"])
    empty = play_sweep(tmp_path / "empty", wanted, only=0, backends={"llava-ov-7b": HostileModel()})
    page = build_page(read_run(empty))
    assert "not played yet" in " ".join(page["problems"]) and "UNFINISHED, 0 of " in page["answers"][0]
    assert page["answers"][0] in write_page(read_run(empty)).read_text("utf-8")
