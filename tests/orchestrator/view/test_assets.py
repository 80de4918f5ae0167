"""The page's own files and the state that it asks for."""

import re
from types import SimpleNamespace

import pytest
from aiohttp import web

from orchestrator.report.measures.endings import EndingKind
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.view import assets, bundle
from orchestrator.view.catalog import hash_key
from orchestrator.view.page import EpisodeName, ViewPage, _episode_name, _parse_number
from orchestrator.view.part_columns import ACTIONS, FLAGS, KINDS
from orchestrator.view.query import Query
from sweeps.conditions import CONDITIONS
from tests.orchestrator.report.runs import play_sweep, sweep


def test_scripts_run_in_one_strict_function():
    served, bundled = assets.SERVED_SCRIPT, assets.bundled_script()

    for script in (served, bundled):
        assert script.startswith('"use strict";\n(() => {\n') and script.endswith("})();\n")
    assert "hyparquet" not in served and len(bundled) > len(served) + 10_000
    own = [assets._text("orchestrator.report.html", "report.js"), assets._text("orchestrator.view", "view.js")]
    assert all(part in script for part in own for script in (served, bundled))
    assert served.index(own[0]) < served.index(own[1])


def test_style_is_the_reports_and_the_viewers_own():
    assert (
        assets._text("orchestrator.report.html", "report.css") + assets._text("orchestrator.view", "view.css")
        == assets.STYLE
    )


def test_content_of_the_page_has_what_its_scripts_read():
    assert list(assets.CONTENT) == ["texts", "pictures", "kinds", "conditions", "sorts", "rows"]
    assert assets.CONTENT["texts"] == assets.CONTENT["pictures"] == []
    assert assets.CONTENT["rows"] == assets.MOST_ROWS == 100 and assets.CONTENT["conditions"] == list(CONDITIONS)
    assert assets.CONTENT["sorts"] == [
        "sample", "model", "condition", "ending", "turns", "seconds", "tokens read", "tokens written",
    ]  # fmt: skip
    assert (
        list(assets.CONTENT["kinds"]) == [*(kind.value for kind in EndingKind), "answered every picture"] == list(KINDS)
    )
    assert assets.CONTENT["kinds"]["answered every picture"] == (
        "A decision map or an operating curve: every picture, or every question, was asked."
    )


def test_flags_and_actions_are_named():
    assert list(FLAGS.values()) == [
        "letter and text disagree", "empty reply", "same reply twice in a row", "reply of 200 characters or more",
    ]  # fmt: skip
    assert list(ACTIONS.values()) == ["asked for something", "abstained", "named a category", "named no option"]
    assert [int(flag) for flag in (*FLAGS, *ACTIONS)] == [1, 2, 4, 8, 16, 32, 64, 128]


def test_state_counts_what_is_stored_and_planned(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"]), only=4)
    page = ViewPage({"run": folder})

    assert page._state_fields() == {"version": 0, "total": 0, "planned": 0, "reading": True}
    page.refresh()
    assert page._state_fields() == {"version": 1, "total": 4, "planned": 10, "reading": False}
    page.refresh()
    assert page._state_fields()["version"] == 1, "nothing has changed"
    listed = page._list(Query(), 0, None, "")
    assert (listed["matches"], listed["start"], listed["row"], len(listed["rows"])) == (4, 0, None, 4)
    assert page._list(Query(), 3, None, "")["rows"] == listed["rows"][3:]
    assert page.labeler == "" and page._view([]) is None


@pytest.mark.parametrize("text", ["0", "18446744073709551615", "007"])
def test_numbers_have_digits_only(text):
    assert _parse_number(text, 20) == int(text)


@pytest.mark.parametrize("text", ["", "-1", "1.0", "18446744073709551616", "1" * 21])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(web.HTTPBadRequest):
        _parse_number(text, 20)


def test_a_bundle_names_its_files_and_allows_only_its_own_script(demo_data, tmp_path):
    folder = play_sweep(tmp_path / "run", sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"]))
    *_, last = bundle.write_bundle({"<run>": folder}, None, tmp_path / "out", with_pictures=False)
    page = (tmp_path / "out" / "index.html").read_text()

    assert last == (10, 0, sum(path.stat().st_size for path in (tmp_path / "out").iterdir()))
    (policy,) = re.findall(r'Content-Security-Policy"\s+content="([^"]*)"', page)
    parts = dict(part.strip().split(" ", 1) for part in policy.replace("&#39;", "'").split(";"))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert (parts["img-src"], parts["connect-src"]) == ("data:", "'self'")
    assert parts["style-src"] == bundle.policy_hash(assets.STYLE)
    assert parts["script-src"] == bundle.policy_hash(assets.bundled_script())
    for text in (
        '"total":10',
        '"planned":10',
        '"picture_bytes":[]',
        '"version":"',
        '"file_episodes":8192',
        '"labeler":""',
    ):
        assert text in page
    assert (
        (tmp_path / "out" / "README.md")
        .read_text()
        .startswith("---\ntitle: Episodes of proactive-sweep runs\nsdk: static\n")
    )


def test_an_episode_is_named_by_its_key_or_its_number():
    def name_of(**query):
        return _episode_name(SimpleNamespace(query=query), "beside")

    assert name_of() is None and name_of(beside_run="one") is None
    assert name_of(beside="k", beside_run="one") == ("one", hash_key("k")) and name_of(beside="k").run == ""
    assert name_of(beside_id="7", beside="k", beside_run="one") == ("one", 7)
    assert name_of(beside_id="0" * 20) == ("", 0)
    with pytest.raises(web.HTTPBadRequest):
        name_of(beside_id="0" * 21)


def test_an_episode_is_found_again_after_its_parts_were_merged(demo_data, tmp_path):
    wanted, folder = sweep(demo_data, ["guess"], ["hint"], scenarios=["QD"]), tmp_path / "run"
    for count in (3, None):
        play_sweep(folder, wanted, only=count)
    page = ViewPage({"run": folder})
    page.refresh()
    before = page.catalog.version
    key = episodes(folder).collect()["key"].sort()[-1]
    store = EpisodeStore(folder)
    store.compact()
    store.close()

    view = page._view([EpisodeName("run", hash_key(key))])
    assert [episode["key"] for episode in view["episodes"]] == [key] and page.catalog.version == before + 1
    assert view["ids"] == [str(hash_key(key))] and view["neighbors"] == [] and "label" not in view
    assert page._view([EpisodeName("run", 1)]) is None
