"""The static bundle in headless Chromium: its answers are those of the server, with and without range requests."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest

from envs.errors import RunFolderError
from orchestrator.storage.episode_store import episodes
from orchestrator.view.bundle import write_bundle
from tests.orchestrator.report.html.chromium import CHROMIUM, DRIVER
from tests.orchestrator.view.hostile_run import CONDITIONS
from tests.orchestrator.view.served import served
from tests.orchestrator.view.test_view_browser import text, wait_for

needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
QUERIES = [
    {},
    {"scenario": "COCO", "condition": CONDITIONS[0], "outcome": "not correct"},
    {"sample": "1", "kind": "correct"},
]


class Ranges(http.server.SimpleHTTPRequestHandler):
    """A static server that honors one range per request, as most web servers do."""

    def log_message(self, *values) -> None: ...

    def do_GET(self) -> None:
        path, asked = Path(self.translate_path(self.path)), self.headers.get("Range")
        if asked is None or not path.is_file():
            return super().do_GET()
        first, last = (int(number) for number in asked.removeprefix("bytes=").split("-"))
        content = path.read_bytes()
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[first : last + 1])
        return None


class WholeFiles(http.server.SimpleHTTPRequestHandler):
    """The server of ``python -m http.server``, which has no ranges."""

    def log_message(self, *values) -> None: ...


@contextmanager
def static(folder: Path, handler: type) -> Iterator[str]:
    """Serve a folder during the block and yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join(30)


@pytest.fixture(scope="module")
def runs(two_folders) -> dict[str, Path]:
    return {"<b>run</b>": two_folders["run"], "other": two_folders["other"]}


@pytest.fixture(scope="module")
def bundle(runs, tmp_path_factory) -> Path:
    """A bundle of several files, whose last is not full."""
    target = tmp_path_factory.mktemp("bundle") / "out"
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("EPISODES", 100), ("PICTURES", 24)):
            patch.setattr(f"orchestrator.view.bundle.FILE_{name}", size)
            patch.setattr(f"orchestrator.view.bundle.GROUP_{name}", size // 6)
        *_, last = write_bundle(runs, None, target)
    assert last.episodes > 200 and last.pictures > 24
    assert last.bytes == sum(path.stat().st_size for path in target.iterdir())
    return target


def open_bundle(browser, address: str, fragment: str = "") -> None:
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(address + fragment)
    wait_for(browser, "document.querySelector('.ep-key, #absent, .empty')")


def listed(browser) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelectorAll('#list button')].map((node) => node.textContent)"
    )


def options(browser, name: str) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelector(`[name=${arguments[0]}]`).options].map((node) => node.textContent)", name
    )


class TestInChromium:
    pytestmark = needs_browser

    @pytest.mark.parametrize("handler", [Ranges, WholeFiles])
    def test_lists_are_those_of_the_server(self, handler, browser, bundle, runs):
        with static(bundle, handler) as address, served(runs) as live:
            for query in QUERIES if handler is Ranges else QUERIES[:2]:
                shown = []
                for page in (address, live):
                    open_bundle(browser, page, "#" + urlencode(query).replace("+", "%20"))
                    counts = [options(browser, name) for name in ("run", "scenario", "kind", "outcome")]
                    shown.append((text(browser, "#matches"), listed(browser), text(browser, "#episode h3"), counts))
                assert shown[0] == shown[1] and browser.execute_script("return window.fired") is None
            browser.get("about:blank")

    def test_an_episode_beside_another_with_pictures_by_their_names(self, browser, bundle, runs):
        names = [f"{model}/ROD/hint/mcqa/0" for model in ("uniform", "oracle")]
        strips = []
        with static(bundle, Ranges) as address, served(runs) as live:
            for page in (address, live):
                open_bundle(browser, page, f"#episode={names[0]}&beside={names[1]}")
                wait_for(browser, "document.querySelectorAll('.lane').length === 2")
                wait_for(browser, "[...document.querySelectorAll('.shot img')].every((node) => node.src)")
                strips.append(browser.execute_script("return document.querySelector('.lanes').outerHTML"))
            assert strips[0] == strips[1] and "data:image/webp" in strips[0]
            assert browser.get_log("browser") == [] and browser.execute_script("return window.fired") is None
            browser.get("about:blank")

    def test_opened_from_disk_it_says_how_to_serve_it(self, browser, bundle):
        browser.get((bundle / "index.html").as_uri())
        wait_for(browser, "document.querySelector('#progress').textContent.includes('http.server')")
        browser.get_log("browser")


def test_an_existing_folder_is_refused(runs, tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="already exists"):
        next(write_bundle(runs, None, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_target_that_cannot_be_written_is_not_taken_for_a_changed_run(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.view.bundle.FILE_EPISODES", 1)
    writing = write_bundle({"other": runs["other"]}, None, tmp_path / "new", with_pictures=False)
    assert next(writing).episodes == 1
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        next(writing)


def test_without_pictures_a_new_folder_holds_all_episodes(runs, tmp_path):
    *_, last = write_bundle({"other": runs["other"]}, None, tmp_path / "new/below", with_pictures=False)

    assert (last.episodes, last.pictures) == (episodes(runs["other"]).collect().height, 0)
    names = ["README.md", "episodes-0000.parquet", "index.html", "list.parquet"]
    assert sorted(path.name for path in (tmp_path / "new/below").iterdir()) == names
