"""What the page of ``view`` serves, and what it refuses."""

import json
from urllib.parse import urlencode

import pytest

from orchestrator.report.read_run import read_run
from orchestrator.storage.option_labels import FILE, read_labels
from tests.orchestrator.report.html.test_page import HOSTILE
from tests.orchestrator.report.runs import play_sweep, sweep
from tests.orchestrator.view.served import Reader, served


@pytest.fixture(scope="module")
def hostile_folder(two_folders):
    return two_folders["run"]


@pytest.fixture(scope="module")
def address(hostile_folder):
    with served({"<b>run</b>": hostile_folder}) as address:
        yield address


@pytest.fixture
def reader(address) -> Reader:
    return Reader(address)


def test_rows_come_page_by_page_and_each_once(reader):
    first = reader.read("rows")
    pages = [reader.read("rows", start=start) for start in range(0, first["matches"], 100)]
    ids = [row["id"] for page in pages for row in page["rows"]]

    assert len(ids) == len(set(ids)) == first["matches"] == first["planned"]


def test_a_page_that_holds_an_episode_and_its_next_failure(reader):
    last = reader.read("rows", start=100)["rows"][-1]
    page = reader.read("rows", episode_id=last["id"], episode_run=last["run"])
    assert page["rows"][page["row"] - page["start"]] == last

    step = reader.read("rows", episode_id=last["id"], episode_run=last["run"], step="next")
    assert step["row"] > page["row"] and step["rows"][step["row"] - step["start"]]["right"] == 0


def test_two_episodes_side_by_side_with_pictures_and_options(reader, hostile_folder):
    stored = read_run(hostile_folder).episodes.filter(scenario="ROD", condition="hint", sample_id=0).sort("model")
    first, second = stored.filter(model="always-ask")["key"][0], stored.filter(model="oracle")["key"][0]
    view = reader.read("episode", episode=first, beside=second)

    assert [episode["key"] for episode in view["episodes"]] == [first, second]
    assert view["episodes"][1]["kind"] == "correct" and view["neighbors"]
    turn = view["episodes"][0]["turns"][0]
    assert view["pictures"][turn["picture"]].startswith("data:image/webp;base64,") and turn["options"]


def test_hostile_replies_arrive_as_json_alone(reader):
    rows = reader.read("rows", model="uniform", scenario="ROD")["rows"]
    texts = [text for row in rows for text in reader.read("episode", episode_id=row["id"])["texts"]]
    assert set(HOSTILE[:3]) <= set(texts) and reader.headers["Content-Type"].startswith("application/json")

    page = reader.look()
    assert "<b>run</b>" not in page and "&lt;b&gt;run&lt;/b&gt;" in page


def test_policy_lets_the_page_ask_its_own_server_only(reader):
    reader.look()
    policy = reader.headers["Content-Security-Policy"]
    assert "connect-src 'self'" in policy and "form-action 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("path", ["rows", "episode", "state", ""])
def test_foreign_hosts_origins_and_tokens_are_refused(path, reader):
    foreign = f"{reader.path}{path}"
    assert reader.ask("GET", foreign, {"Host": "evil.example"}) == 403
    assert reader.ask("GET", foreign, {"Origin": "http://evil.example"}) == 403
    assert reader.ask("GET", f"/guess/{path}") == 404
    assert reader.ask("POST", foreign, {"Origin": f"http://{reader.host}"}, "a=b") == 405


@pytest.mark.parametrize(
    "query",
    [
        "start=-1",
        "start=x",
        "start=9999999999",
        "episode_id=-1",
        "episode_id=99999999999999999999",
        "episode_id=%D9%A1",
    ],
)
def test_numbers_that_are_none_are_refused(query, reader):
    assert reader.ask("GET", f"{reader.path}rows?{query}") == 400


def test_an_unknown_episode_is_not_found(reader):
    assert reader.ask("GET", f"{reader.path}episode?episode=nothing") == 404
    assert reader.ask("GET", f"{reader.path}episode") == 404


def test_without_its_data_a_run_has_replies_but_no_pictures(hostile_folder, tmp_path):
    with served({"run": hostile_folder}, tmp_path) as address:
        reader = Reader(address)
        row = reader.read("rows")["rows"][0]
        view = reader.read("episode", episode_id=row["id"])

    assert view["pictures"] == [] and "data folder" in view["episodes"][0]["why"]
    assert json.dumps(view["episodes"][0]["turns"])


def test_labels_are_stored_under_the_persons_name(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["uniform"], ["zero-shot"], scenarios=["ROD"]))
    with served({"run": folder}, labeler="ada") as address:
        reader = Reader(address)
        row = reader.read("rows")["rows"][0]
        view = reader.read("episode", episode_id=row["id"])
        key = view["episodes"][0]["key"]
        assert view["label"] is None and len(view["episodes"][0]["choices"]) > 3

        origin = {"Origin": f"http://{reader.host}"}
        form = urlencode({"run": "run", "key": key, "label": "2", "unsure": "true", "note": "<b>odd</b>"})
        assert reader.ask("POST", f"{reader.path}label", origin, form) == 200
        assert reader.ask("POST", f"{reader.path}label", {"Origin": "http://evil.example"}, form) == 403
        assert reader.ask("POST", f"{reader.path}label", origin, form.replace("label=2", "label=x")) == 400
        assert reader.ask("POST", f"{reader.path}label", origin, form.replace("run=run", "run=other")) == 404
        label = reader.read("episode", episode_id=row["id"])["label"]

    assert label == read_labels(folder)[key, "ada"].model_dump() and label["label"] == "2" and label["unsure"]


def test_without_a_name_nothing_is_stored(reader, hostile_folder):
    form = urlencode({"run": "<b>run</b>", "key": "x", "label": "0"})
    assert reader.ask("POST", f"{reader.path}label", {"Origin": f"http://{reader.host}"}, form) == 403
    assert not (hostile_folder / FILE).exists()


def test_a_page_is_html_and_its_answers_are_json(reader):
    reader.look()
    assert reader.headers["Content-Type"] == "text/html; charset=utf-8"
    reader.read("state")
    assert reader.headers["Content-Type"] == "application/json; charset=utf-8"
