"""A web server whose file changes during a fetch: no download ever joins two versions, and one of the same version resumes."""

from __future__ import annotations

import re
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from random import Random

import pytest

from orchestrator.datasets import remote_files
from orchestrator.datasets.remote_files import FetchError
from orchestrator.datasets.sources import WebFolder
from tests import loopback

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
NAME = "data1.zip"
SIZE = 300_000
VERSIONS = [Random(number).randbytes(SIZE) for number in (1, 2)]
"""Of the same size, so that only the bytes tell them apart."""


class Changing:
    """A file in two versions, its validators, and after how many bytes the next answers break off."""

    def __init__(self, marks: str = "etag", heeds: bool = True) -> None:
        self.marks, self.heeds, self.version = marks, heeds, 0
        self.cuts: list[int] = []
        self.changes_after_cut = False
        self.asked: list[tuple[str, str]] = []
        """Range and If-Range of each GET."""
        self.encodings: set[str] = set()
        """Accept-Encoding of all GETs."""
        self.sent = 0

    def headers(self) -> dict[str, str]:
        tag, date = f'"v{self.version}"', f"Sat, 0{self.version + 1} Aug 2026 10:00:00 GMT"
        return {"etag": {"ETag": tag}, "date": {"Last-Modified": date, "ETag": f"W/{tag}"}, "none": {}}[self.marks]


@pytest.fixture
def serve(monkeypatch):
    """Start a server of a Changing file; yield a function that returns its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(remote_files, "RETRY_PAUSE_S", 0.01)
    with ExitStack() as running:
        yield lambda state: f"{running.enter_context(loopback.serving(handler(state)))}/bench"


def handler(state: Changing) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.reply(200 if self.path.endswith(NAME) else 404, state.headers(), VERSIONS[state.version], body=False)

        def do_GET(self) -> None:
            if self.path.endswith("/"):
                return self.reply(200, {"Content-Type": "text/html"}, f'<a href="{NAME}">x</a>'.encode())
            if not self.path.endswith(NAME):
                return self.reply(404, {}, b"")
            byte_range, condition = self.headers.get("Range", ""), self.headers.get("If-Range", "")
            state.asked.append((byte_range, condition))
            state.encodings.add(self.headers.get("Accept-Encoding", ""))
            content = VERSIONS[state.version]
            start = int(re.match(r"bytes=(\d+)-", byte_range)[1]) if byte_range else 0
            complete = not byte_range or (state.heeds and condition and condition not in state.headers().values())
            range_header = {} if complete else {"Content-Range": f"bytes {start}-{SIZE - 1}/{SIZE}"}
            self.reply(
                200 if complete else 206,
                {**state.headers(), **range_header},
                content if complete else content[start:],
                counted=True,
            )

        def reply(self, status, headers, content, body=True, counted=False) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            cut = state.cuts.pop(0) if counted and state.cuts else len(content)
            if body:
                state.sent += len(content[:cut]) if counted else 0  # before they are read at the other end
                self.wfile.write(content[:cut])
            if cut < len(content) and state.changes_after_cut:
                state.version, state.changes_after_cut = 1, False

    return Handler


def fetch_file(url: str, target) -> bytes:
    """Return the file as one call fetches it: listed, then downloaded."""
    web_folder = WebFolder(url, lambda size: None)
    [file] = web_folder.files()
    return web_folder.download(file, target).read_bytes()


@pytest.mark.parametrize(("marks", "condition"), [("etag", '"v0"'), ("date", "Sat, 01 Aug 2026 10:00:00 GMT")])
def test_download_of_same_version_resumes_conditionally(serve, tmp_path, marks, condition):
    state = Changing(marks)
    state.cuts = [100_000, 50_000]

    assert fetch_file(serve(state), tmp_path / NAME) == VERSIONS[0]
    assert state.asked == [("bytes=0-", ""), ("bytes=100000-", condition), ("bytes=150000-", condition)]
    assert state.sent == SIZE, "bytes were sent twice"


@pytest.mark.parametrize("heeds", [True, False], ids=["If-Range heeded", "If-Range ignored"])
@pytest.mark.parametrize("marks", ["etag", "date"])
def test_file_changed_midway_is_refused_and_next_call_gets_new_one(serve, tmp_path, marks, heeds):
    state = Changing(marks, heeds)
    state.cuts, state.changes_after_cut = [100_000], True
    url = serve(state)

    with pytest.raises(FetchError, match=r"data1\.zip changed on the server during the download; rerun"):
        fetch_file(url, tmp_path / NAME)
    assert list(tmp_path.iterdir()) == []
    assert fetch_file(url, tmp_path / NAME) == VERSIONS[1]


def test_partial_file_of_another_version_is_not_appended_to(serve, tmp_path):
    state = Changing()
    state.cuts = [100_000] + [0] * 10
    url = serve(state)
    with pytest.raises(FetchError, match="broke off at 100,000 of 300,000 bytes"):
        fetch_file(url, tmp_path / NAME)
    [partial] = tmp_path.iterdir()
    assert partial.stat().st_size == 100_000

    state.cuts, state.version = [], 1
    assert fetch_file(url, tmp_path / NAME) == VERSIONS[1]
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_without_any_mark_a_broken_download_begins_anew(serve, tmp_path):
    state = Changing("none")
    state.cuts, state.changes_after_cut = [100_000], True

    assert fetch_file(serve(state), tmp_path / NAME) == VERSIONS[1]
    assert state.asked == [("bytes=0-", ""), ("bytes=0-", "")]


def test_bytes_are_asked_for_as_they_are_and_too_many_begin_anew(serve, tmp_path):
    """A server that compressed them would send others than those it counts."""
    state = Changing()
    state.cuts = [100_000] + [0] * 10
    url = serve(state)
    with pytest.raises(FetchError, match="broke off"):
        fetch_file(url, tmp_path / NAME)
    [partial] = tmp_path.iterdir()
    partial.write_bytes(bytes(SIZE + 1))
    state.cuts, state.asked = [], []
    assert fetch_file(url, tmp_path / NAME) == VERSIONS[0]
    assert state.asked == [("bytes=0-", "")] and state.encodings == {"identity"}
