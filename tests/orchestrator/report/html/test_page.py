"""The page is one inert file of bounded size, equal for equal folders; replies of models appear as text only."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from actors.engine.backend import Backend, Reply
from actors.text.printable import HIDDEN
from envs.errors import RunFolderError
from envs.render import Renderer, UnreadablePicture
from envs.types import ImageRef
from orchestrator.report.html import build_page, write_page
from orchestrator.report.html.episode_browser import sample_episodes
from orchestrator.report.html.episode_view import FIRST, LAST, LONGEST_REPLY, EpisodeViews, rows_by_key
from orchestrator.report.html.text import inert, visible
from orchestrator.report.html.thumbnails import EDGE, Thumbnails, parse_image_key
from orchestrator.report.measures.endings import endings
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.metrics import average_over_scenarios
from orchestrator.storage import checksums, replica_time
from orchestrator.storage.replica_time import ReplicaTime
from orchestrator.storage.schemas import VERDICTS
from tests.orchestrator.report.runs import play_sweep, sweep

HOSTILE = (
    "<script>alert('reply')</script><img src=x onerror=alert(1)>",
    "</script></style><script>alert('out')</script>",
    "A. fine\u202egnp.exe\x00\x1b[31m\u2028\u200bend",
    "x" * 1_000_000,
    "",
    "**B**, since `this` <b>is</b> [so](javascript:alert(1)) {{ 7 * 7 }} ${alert(1)}",
)
CONDITIONS = ["zero-shot", "hint", "history", "random-proactive", "reference"]


class HostileModel(Backend):
    """A model with hostile replies that cannot process the pictures of one scenario."""

    def __init__(self) -> None:
        self.said = 0

    async def reply(self, request) -> Reply:
        if request.situation.sample.scenario == "QD":
            raise UnreadablePicture("QD: <b>refused</b> \u202eby the processor")
        self.said += 1
        return Reply(HOSTILE[self.said % len(HOSTILE)])

    async def close(self) -> None:
        return None


def hostile_run(output: Path, data_folder: Path) -> Path:
    """Play two baselines and a hostile model over four scenarios."""
    wanted = sweep(
        data_folder, ["oracle", "always-ask", "uniform"], CONDITIONS, scenarios=["ROD", "VSOD", "QD", "COCO"]
    )
    return play_sweep(output, wanted, backends={"uniform": HostileModel()})


class Elements(HTMLParser):
    """A parser that collects elements with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] in ("script", "style") and data.strip():
            self.inside.append((self.elements[-1][0], data))


@pytest.fixture(scope="module")
def folder(demo_data, tmp_path_factory):
    return hostile_run(tmp_path_factory.mktemp("page") / "run", demo_data)


@pytest.fixture(scope="module")
def run_data(folder):
    return read_run(folder)


@pytest.fixture(scope="module")
def html(folder):
    return write_page(read_run(folder)).read_text("utf-8")


@pytest.fixture(scope="module")
def content(html):
    return json.loads(html.split('id="content">')[1].split("</script>")[0])


# -- one inert file ----------------------------------------------------------------------------------------------------
def test_the_same_folder_gives_the_same_bytes(folder, html):
    assert write_page(read_run(folder)).read_text("utf-8") == html
    assert not list(folder.glob("*.tmp"))


def test_policy_allows_only_own_style_and_script(html):
    parser = Elements(html)
    scripts = [(attributes.get("type"), attributes) for tag, attributes in parser.elements if tag == "script"]
    assert [kind for kind, _ in scripts] == ["application/json", None]
    policy = next(a["content"] for tag, a in parser.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:; ")
    style, script = (
        re.search(r"<style>(.*?)</style>", html, re.S)[1],
        html.rpartition("<script>")[2].split("</script>")[0],
    )
    for text in (style, script):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert "unsafe" not in policy and "http" not in policy


def test_page_makes_no_requests(html):
    for tag, attributes in Elements(html).elements:
        assert tag not in ("iframe", "object", "embed", "form", "base", "audio", "video", "a:href")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), attributes


def test_replies_are_in_data_and_not_in_markup(html, content):
    for reply in HOSTILE[:3]:
        assert reply in content["texts"]
    assert (
        "alert(" not in html.split('id="content"')[0]
        and "<script>alert" not in html
        and "onerror" not in html.rpartition("<script>")[2]
    )
    assert all(
        ord(letter) < 128 and letter not in "<>&" for letter in html.split('id="content">')[1].split("</script>")[0]
    )


def test_long_reply_is_cut_and_its_length_shown(content):
    long = [turn for episode in content["episodes"] for turn in episode["turns"] if "length" in turn]
    assert long and {turn["length"] for turn in long} == {1_000_000}
    assert {len(content["texts"][turn["reply"]]) for turn in long} == {LONGEST_REPLY}


def test_errors_are_escaped_in_summary(html, run_data):
    page = build_page(run_data, None, 0, 10)
    problems = " ".join(page.problems)
    assert "without an answer, left out of all measures: 50 episodes (50 unprocessable)" in problems
    assert "\\u202eby the processor" in problems, "the store has it escaped already"
    assert "&lt;b&gt;refused&lt;/b&gt; \\u202eby" in html and "<b>refused</b>" not in html


@given(st.text(max_size=300))
def test_hidden_characters_become_visible(text):
    assert not HIDDEN.search(visible(text))


@given(st.text(max_size=300))
def test_inert_json_round_trips_without_markup(text):
    encoded = inert({"text": text + "</script><!--"})
    assert json.loads(encoded)["text"] == text + "</script><!--"
    assert encoded.isascii() and not set("<>&") & set(encoded)


# -- what a strip says -------------------------------------------------------------------------------------------------
def test_options_match_game_and_reply_names_one(content):
    named = 0
    for episode in content["episodes"]:
        if episode["model"] != "oracle":
            continue
        for turn in episode["turns"]:
            field, slot = ("options", 0) if turn["action"] == "suggestion" else ("categories", 1)
            assert content["texts"][turn[field][turn["said"][slot]]] == content["texts"][turn["reply"]]
            assert turn["said"][0] in turn["asks"] if slot == 0 else turn["said"][1] == turn["answer"]
            named += 1
        if episode["condition"] == "reference":
            assert episode["turns"][0]["options"] == []
    assert named > 100


def test_every_condition_replays_without_difference(content):
    assert {episode["condition"] for episode in content["episodes"]} == set(CONDITIONS)
    assert not [episode["key"] for episode in content["episodes"] if "why" in episode]


def test_stored_readings_win_over_replayed_ones(run_data):
    row = run_data.episodes.filter(model="oracle", scenario="ROD", condition="zero-shot").to_dicts()[0] | {
        "kind": "correct"
    }
    turns = rows_by_key(run_data.turns, [row["key"]])[row["key"]]
    for changed in ({"option": "mismatch"}, {"frame": 3}, {"reply": "nonsense"}, {"move": "sideways"}):
        strips = EpisodeViews(run_data, Thumbnails(None, 0))
        assert strips.add(row, [turns[0] | changed, *turns[1:]])
        if changed != {"move": "sideways"}:  # requested moves follow from the reply, so this changes nothing
            assert "other readings" in strips.views[0]["why"]
            assert "options" not in strips.views[0]["turns"][0]


def test_long_episodes_show_their_beginning_and_their_end(content):
    long = [episode for episode in content["episodes"] if episode["played"] > FIRST + LAST]
    assert long
    for episode in long:
        numbers = [turn["turn"] for turn in episode["turns"]]
        assert numbers == [*range(FIRST), *range(episode["played"] - LAST, episode["played"])]


def test_every_ending_has_its_meaning(content):
    assert {episode["kind"] for episode in content["episodes"]} <= set(content["kinds"])
    assert {"correct", "unprocessable", "unparsable", "asked for ever"} <= {e["kind"] for e in content["episodes"]}
    assert all(content["kinds"].values())


def test_judge_verdicts_are_shown_with_reply(folder, run_data, tmp_path):
    row = run_data.episodes.filter(model="oracle").to_dicts()[0] | {"kind": "correct"}
    strips = EpisodeViews(run_data, Thumbnails(None, 0))
    verdict = {
        "key": row["key"],
        "judge": "rule",
        "text": "because " * 1000,
        "category": True,
        "note": float("nan"),
    }
    strips.add(row, [], [verdict])
    judged = strips.views[0]["judged"][0]
    assert judged["text"] == [("because " * 1000)[:LONGEST_REPLY], 8000] and judged["category"] is True
    assert "note" not in judged


def judge(folder: Path, key: str) -> None:
    """Write a judge's verdict with hostile reasoning, a torn part and a foreign part."""
    verdict_folder = folder / "verdicts"
    verdict_folder.mkdir()
    reasoning = HOSTILE[0] + " so: 1, 0"
    bits = {"category": True, "suggestion": False, "aggregate": True}
    row = dict.fromkeys(VERDICTS) | {"key": key, "judge": "rule-1", "text": reasoning, "attempts": 2, **bits}
    pl.DataFrame([row], schema=VERDICTS).write_parquet(verdict_folder / "part-00000001.parquet")
    (verdict_folder / "part-00000002.parquet").write_bytes(b"PAR1 torn")
    pl.DataFrame({"other": [1]}).write_parquet(verdict_folder / "part-00000003.parquet")
    (folder / checksums.NAME).unlink()  # else parts that it does not list are left out


def test_the_judge_is_named_and_torn_verdicts_count_as_absent(demo_data, tmp_path):
    run = play_sweep(tmp_path / "judged", sweep(demo_data, ["guess"], ["zero-shot"], protocol="oeg", scenarios=["ROD"]))
    judge(run, read_run(run).episodes["key"][0])
    page = build_page(read_run(run), None, 0, 20)
    assert dict(page.facts)["Judge"] == "rule-1: 1 verdict of 10 answers (0 without one, 2 calls; 9 not read yet)"
    (judged,) = [episode["judged"] for episode in page.browser["episodes"] if "judged" in episode]
    assert judged[0]["judge"] == ["rule-1", 0] and judged[0]["suggestion"] is False


def test_an_answer_that_was_judged_again_has_its_newest_verdict_alone(demo_data, tmp_path):
    run = play_sweep(tmp_path / "judged", sweep(demo_data, ["guess"], ["zero-shot"], protocol="oeg", scenarios=["ROD"]))
    judge(run, read_run(run).episodes["key"][0])
    first = pl.read_parquet(run / "verdicts/part-00000001.parquet")
    second = first.with_columns(text=pl.lit("0, 1"), category=False, suggestion=True)
    second.write_parquet(run / "verdicts/part-00000004.parquet")
    page = build_page(read_run(run), None, 0, 20)
    (judged,) = [episode["judged"] for episode in page.browser["episodes"] if "judged" in episode]

    assert [(verdict["text"][0], verdict["suggestion"]) for verdict in judged] == [("0, 1", True)]


# -- pictures ----------------------------------------------------------------------------------------------------------
numbers = st.floats(min_value=-1e6, max_value=1e6)
paths = st.from_regex(r"\A[A-Za-z0-9_./ -]{1,30}\Z")


@given(paths, st.none() | st.tuples(numbers, numbers, numbers, numbers), st.none() | st.integers(1, 99999))
def test_image_key_round_trips(path, crop, edge):
    assert parse_image_key(ImageRef(path, crop, edge).key) == ImageRef(path, crop, edge)


def test_a_thumbnail_shows_what_the_model_saw(run_data, demo_data):
    image = run_data.turns.join(run_data.episodes.lazy().filter(scenario="COCO"), on="key", how="semi").collect()[
        "image"
    ][0]
    assert "@" in image
    thumbnails = Thumbnails(demo_data, 5)
    assert thumbnails.number(image) == 0 == thumbnails.number(image)
    small = Image.open(io.BytesIO(base64.b64decode(thumbnails.uris[0].partition(",")[2])))
    saw = Renderer(demo_data).picture(parse_image_key(image))
    assert max(small.size) <= EDGE and abs(small.width / small.height - saw.width / saw.height) < 0.05
    means = [picture.convert("RGB").resize((1, 1), Image.Resampling.BOX).getpixel((0, 0)) for picture in (small, saw)]
    assert all(abs(a - b) <= 6 for a, b in zip(*means, strict=True))


def test_page_bounds_hold_and_are_stated(folder, run_data, demo_data):
    page = build_page(run_data, None, 7, 40)
    assert len(page.browser["pictures"]) == 7 and len(page.browser["episodes"]) == 40
    assert "40 of 600 episodes, drawn with seed 0" in page.about[0]
    assert re.fullmatch(r"7 pictures as .*; \d+ more left out to bound the file\.", page.about[1])
    spent = EpisodeViews(run_data, Thumbnails(None, 0), most_bytes=1)
    row = run_data.episodes.to_dicts()[0] | {"kind": "correct"}
    assert [spent.add(row, []), spent.add(row, [])] == [True, False]
    tight = Thumbnails(demo_data, 99, most_bytes=1)
    images = run_data.turns.collect()["image"].unique(maintain_order=True).to_list()[:3]
    placed = [tight.number(image) for image in images]
    assert placed[0] == 0 and len(tight.uris) == 1 and tight.left_out == 2


def test_missing_data_folder_gives_reasons_instead_of_pictures(folder, tmp_path):
    page = build_page(read_run(folder, tmp_path / "gone"), tmp_path / "gone", 100, 100)
    assert page.browser["pictures"] == [] and "data folder is not available" in page.about[1]
    turns = [turn for episode in page.browser["episodes"] for turn in episode["turns"]]
    assert {turn["picture"] for turn in turns} == {"the data folder is not available"}
    assert all("options" not in turn for turn in turns)
    assert all("data folder" in episode["why"] for episode in page.browser["episodes"] if episode["turns"])


def test_a_missing_picture_leaves_its_reason(demo_data):
    assert "is not there" in Thumbnails(demo_data, 5).number("ROD/none.jpg")
    assert "outside the data folder" in Thumbnails(demo_data, 5).number("../../etc/passwd")
    assert "out of all bounds" in Thumbnails(demo_data, 5).number(_some_picture(demo_data) + "@0.0,0.0,1e+300,2.0")


def _some_picture(data_folder: Path) -> str:
    return str(next(data_folder.rglob("*.jpg")).relative_to(data_folder))


# -- selection ---------------------------------------------------------------------------------------------------------
def test_sampled_episodes_cover_every_ending_of_every_cell(run_data):
    ending_rows = endings(run_data)
    keys = sample_episodes(ending_rows, 300, 0)
    assert len(keys) == len(set(keys)) == 300 and keys == sample_episodes(ending_rows, 300, 0) != sample_episodes(
        ending_rows, 300, 1
    )
    strata = ending_rows.select("cell", "kind").unique()
    assert ending_rows.filter(pl.col("key").is_in(keys)).select("cell", "kind").unique().height == strata.height


def test_sampled_episodes_are_shared_by_models_and_conditions(run_data):
    ending_rows = endings(run_data)
    first = ending_rows.filter(pl.col("key").is_in(sample_episodes(ending_rows, 60, 3)))
    assert first.group_by("scenario", "sample_id").len()["len"].to_list() == [15, 15, 15, 15]


# -- summary -----------------------------------------------------------------------------------------------------------
def test_the_headline_is_the_best_average(run_data):
    page = build_page(run_data, None, 0, 5)
    rows = average_over_scenarios(run_data.rows).filter(condition="zero-shot").filter(pl.col("model") != "oracle")
    best = rows.sort("acc", descending=True).row(0, named=True)
    assert page.findings[0].figure == f"{best['acc']:.1f}%" and best["model"] in page.findings[0].text
    facts = dict(page.facts)
    assert facts["Played"] == "600 of 600 planned episodes (100%), 60 cells"
    assert "demo benchmark's" in facts["Data"] and facts["Prompt text"].startswith("mcqa-1: the keys")
    assert facts["Decoding"] == "multiple choice greedy, at most 50 new tokens a reply"


def test_single_model_is_worded_in_singular(demo_data, tmp_path):
    run = play_sweep(
        tmp_path / "one", sweep(demo_data, ["uniform", "first-option"], ["zero-shot"], scenarios=["ROD", "CIT"])
    )
    findings = {finding.text.partition(" (")[0]: finding for finding in build_page(read_run(run), None, 0, 1).findings}
    chance = findings["is the accuracy of choosing blindly among the options"]
    assert chance.text.endswith("The interval of first-option contains it.")


def test_unfinished_cells_are_listed_first(demo_data, tmp_path):
    wanted = sweep(demo_data, ["oracle", "guess"], ["zero-shot"], scenarios=["ROD", "CIT"])
    page = build_page(read_run(play_sweep(tmp_path / "part", wanted, only=25)), None, 10, 50)
    assert page.problems[0].startswith("15 of 40 planned episodes not played yet, in 2 of 4 cells: guess/")
    played_column = [column.name for column in page.cells.columns].index("Played")
    assert [row[played_column].text for row in page.cells.rows] == ["10", "10", "5/10", "0/10"]
    assert page.cells.rows[3][3].text == "-" and page.cells.rows[3][3].value is None


def test_empty_run_has_page(demo_data, tmp_path):
    wanted = sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["ROD"])
    text = write_page(read_run(play_sweep(tmp_path / "empty", wanted, only=0))).read_text("utf-8")
    assert (
        "No episode is scored yet" in text
        and "10 of 10 planned episodes not played yet, in 1 of 1 cell: oracle/ROD/zero-shot" in text
    )


def test_folder_without_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="holds no run"):
        write_page(read_run(tmp_path))


def test_bar_of_held_time_has_every_part_once(tmp_path, demo_data):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["uniform"], ["zero-shot"], scenarios=["ROD"]))
    assert 'id="held"' not in write_page(read_run(folder)).read_text()

    times = {"qwen": ReplicaTime(gpus=1, loading=10, playing=60, lost=10), "judge:x": ReplicaTime(gpus=2, judging=10)}
    replica_time.write_attempts(folder, {"1": times})
    page = write_page(read_run(folder)).read_text()

    bar = re.search(r'<figure class="held".*?</figure>', page, re.DOTALL)[0]
    widths = {part: (float(x), float(width)) for part, x, width in re.findall(r'h-(\w+)" x="(.*?)" width="(.*?)"', bar)}
    assert widths == {"loading": (0, 10), "playing": (10, 60), "judging": (70, 20), "lost": (90, 10)}
    assert re.findall(r"</i>(\w+ \d+%)", bar) == ["loading 10%", "playing 60%", "judging 20%", "lost 10%"]
    assert page.count('id="table-replica-time"') == 1
