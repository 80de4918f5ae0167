"""Downloads of a file that changes on its web server: one of the same version resumes, and no download joins two versions."""

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
"""The contents of the two versions, of the same size, so that only the bytes tell them apart."""


class ServedFile:
    """A file in two versions as a web server serves it."""

    def __init__(self, validator: str = "etag", honors_if_range: bool = True) -> None:
        self.validator, self.honors_if_range, self.version = validator, honors_if_range, 0
        self.cuts: list[int] = []
        """Bytes after which each of the next answers breaks off."""
        self.changes_after_cut = False
        self.ranges: list[tuple[str, str]] = []
        """Range and If-Range of each GET."""
        self.encodings: set[str] = set()
        """Accept-Encoding of all GETs."""
        self.sent = 0
        """Bytes of the file in all answers."""

    def headers(self) -> dict[str, str]:
        tag, date = f'"v{self.version}"', f"Sat, 0{self.version + 1} Aug 2026 10:00:00 GMT"
        return {"etag": {"ETag": tag}, "date": {"Last-Modified": date, "ETag": f"W/{tag}"}, "none": {}}[self.validator]


@pytest.fixture
def serve(monkeypatch):
    """Yield a function that starts the server of a ServedFile and returns its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(remote_files, "RETRY_PAUSE_S", 0.01)
    with ExitStack() as running:
        yield lambda served_file: f"{running.enter_context(loopback.serving(make_handler(served_file)))}/bench"


def make_handler(served_file: ServedFile) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Log nothing."""

        def do_HEAD(self) -> None:
            self.reply(
                200 if self.path.endswith(NAME) else 404,
                served_file.headers(),
                VERSIONS[served_file.version],
                body=False,
            )

        def do_GET(self) -> None:
            if self.path.endswith("/"):
                return self.reply(200, {"Content-Type": "text/html"}, f'<a href="{NAME}">x</a>'.encode())
            if not self.path.endswith(NAME):
                return self.reply(404, {}, b"")
            byte_range, condition = self.headers.get("Range", ""), self.headers.get("If-Range", "")
            served_file.ranges.append((byte_range, condition))
            served_file.encodings.add(self.headers.get("Accept-Encoding", ""))
            content = VERSIONS[served_file.version]
            start = int(re.match(r"bytes=(\d+)-", byte_range)[1]) if byte_range else 0
            is_outdated = condition and condition not in served_file.headers().values()
            complete = not byte_range or (served_file.honors_if_range and is_outdated)
            range_header = {} if complete else {"Content-Range": f"bytes {start}-{SIZE - 1}/{SIZE}"}
            self.reply(
                200 if complete else 206,
                {**served_file.headers(), **range_header},
                content if complete else content[start:],
                counted=True,
            )

        def reply(self, status, headers, content, body=True, counted=False) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            cut = served_file.cuts.pop(0) if counted and served_file.cuts else len(content)
            if body:
                served_file.sent += len(content[:cut]) if counted else 0  # before they are read at the other end
                self.wfile.write(content[:cut])
            if cut < len(content) and served_file.changes_after_cut:
                served_file.version, served_file.changes_after_cut = 1, False

    return Handler


def fetch_file(url: str, target) -> bytes:
    """Return the file as one call fetches it: listed, then downloaded."""
    web_folder = WebFolder(url, lambda size: None)
    [file] = web_folder.files()
    return web_folder.download(file, target).read_bytes()


@pytest.mark.parametrize(("validator", "condition"), [("etag", '"v0"'), ("date", "Sat, 01 Aug 2026 10:00:00 GMT")])
def test_download_of_same_version_resumes_conditionally(serve, tmp_path, validator, condition):
    served_file = ServedFile(validator)
    served_file.cuts = [100_000, 50_000]

    assert fetch_file(serve(served_file), tmp_path / NAME) == VERSIONS[0]
    assert served_file.ranges == [("bytes=0-", ""), ("bytes=100000-", condition), ("bytes=150000-", condition)]
    assert served_file.sent == SIZE, "bytes were sent twice"


@pytest.mark.parametrize("honors_if_range", [True, False], ids=["If-Range honored", "If-Range ignored"])
@pytest.mark.parametrize("validator", ["etag", "date"])
def test_file_changed_midway_is_refused_and_next_call_gets_new_one(serve, tmp_path, validator, honors_if_range):
    served_file = ServedFile(validator, honors_if_range)
    served_file.cuts, served_file.changes_after_cut = [100_000], True
    url = serve(served_file)

    with pytest.raises(FetchError, match=r"data1\.zip changed on the server during the download; rerun"):
        fetch_file(url, tmp_path / NAME)
    assert list(tmp_path.iterdir()) == []
    assert fetch_file(url, tmp_path / NAME) == VERSIONS[1]


def test_partial_file_of_another_version_is_not_appended_to(serve, tmp_path):
    served_file = ServedFile()
    served_file.cuts = [100_000] + [0] * 10
    url = serve(served_file)
    with pytest.raises(FetchError, match="broke off at 100,000 of 300,000 bytes"):
        fetch_file(url, tmp_path / NAME)
    [partial] = tmp_path.iterdir()
    assert partial.stat().st_size == 100_000

    served_file.cuts, served_file.version = [], 1
    assert fetch_file(url, tmp_path / NAME) == VERSIONS[1]
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_broken_download_without_a_validator_starts_over(serve, tmp_path):
    served_file = ServedFile("none")
    served_file.cuts, served_file.changes_after_cut = [100_000], True

    assert fetch_file(serve(served_file), tmp_path / NAME) == VERSIONS[1]
    assert served_file.ranges == [("bytes=0-", ""), ("bytes=0-", "")]


def test_uncompressed_bytes_are_requested_and_a_partial_file_that_is_too_long_starts_over(serve, tmp_path):
    """The ranges of a compressed answer would count other bytes than those of the file."""
    served_file = ServedFile()
    served_file.cuts = [100_000] + [0] * 10
    url = serve(served_file)
    with pytest.raises(FetchError, match="broke off"):
        fetch_file(url, tmp_path / NAME)
    [partial] = tmp_path.iterdir()
    partial.write_bytes(bytes(SIZE + 1))
    served_file.cuts, served_file.ranges = [], []
    assert fetch_file(url, tmp_path / NAME) == VERSIONS[0]
    assert served_file.ranges == [("bytes=0-", "")] and served_file.encodings == {"identity"}
