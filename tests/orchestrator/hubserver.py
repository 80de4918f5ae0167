"""A server on loopback that speaks the Hub's protocol as far as a download needs it, and can be told to misbehave."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests import loopback

COMMIT = "1f" * 20


class Hub:
    """The files of one repository, what was asked of them, and the faults that are still to come."""

    def __init__(self, folder: Path, repository: str, kind: str = "datasets") -> None:
        self.folder, self.repository, self.kind = folder, repository, kind
        self.cuts: dict[str, list[int]] = {}
        """Path -> after how many bytes each next download breaks off."""
        self.lies: dict[str, int] = {}
        """Path -> size that is told in place of the true one."""
        self.spoiled: set[str] = set()
        """Paths whose bytes arrive changed."""
        self.sent: dict[str, int] = {}
        """Path -> bytes sent of it, looks into its directory apart."""
        self.busy = 0
        """So many next requests are answered with 503."""
        self.pace = 0.0
        """Seconds between two parts of a file that is downloaded whole."""
        self.address = ""

    def tree(self) -> list[dict[str, object]]:
        return [self.entry(path) for path in sorted(self.folder.rglob("*")) if path.is_file()]

    def entry(self, path: Path) -> dict[str, object]:
        name = path.relative_to(self.folder).as_posix()
        size = self.lies.get(name, path.stat().st_size)
        entry: dict[str, object] = {"type": "file", "path": name, "size": size, "oid": "0" * 40}
        if path.suffix == ".zip":
            entry["lfs"] = {"oid": hashlib.sha256(path.read_bytes()).hexdigest(), "size": size, "pointerSize": 130}
        return entry


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one server, one class
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self.answer(body=False)

        def do_GET(self) -> None:
            self.answer(body=True)

        def answer(self, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            if hub.busy > 0:
                hub.busy -= 1
                return self.json({"error": "try later"}, 503)
            if path.startswith(f"/api/{hub.kind}/{hub.repository}/tree/{COMMIT}"):
                return self.json(hub.tree())
            if path.startswith(f"/api/{hub.kind}/{hub.repository}"):
                siblings = [{"rfilename": entry["path"], "size": entry["size"]} for entry in hub.tree()]
                return self.json({"id": hub.repository, "sha": COMMIT, "siblings": siblings, "tags": ["license:mit"]})
            resolve = f"/{hub.repository}/resolve/{COMMIT}/"
            if resolve in path:
                return self.resolved(path.split(resolve)[1], body)
            if path.startswith("/cdn/"):
                return self.file(path.removeprefix("/cdn/"), body)
            return self.json({"error": "no such thing"}, 404)

        def json(self, content: object, status: int = 200) -> None:
            encoded = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(encoded)

        def resolved(self, name: str, body: bool) -> None:
            """Large files are elsewhere, as on the Hub."""
            if not (hub.folder / name).is_file():
                return self.json({"error": "Entry not found"}, 404)
            if not name.endswith(".zip"):
                return self.file(name, body)
            size = hub.lies.get(name, (hub.folder / name).stat().st_size)
            self.send_response(302)
            self.send_header("Location", f"{hub.address}/cdn/{name}?signature=secret")
            self.send_header("X-Linked-Size", str(size))
            self.send_header("X-Linked-Etag", '"linked"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def file(self, name: str, body: bool) -> None:
            content = (hub.folder / name).read_bytes()
            start, end = 0, len(content)
            byte_range = self.headers.get("Range", "")
            if byte_range.startswith("bytes="):
                first, _, last = byte_range.removeprefix("bytes=").partition("-")
                start, end = int(first), min(int(last) + 1 if last else end, end)
            self.send_response(206 if byte_range else 200)
            etag = hashlib.sha1(content).hexdigest() if hub.kind == "models" else "e"
            self.send_header("ETag", f'"{etag}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(max(0, end - start)))
            if byte_range:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            self.end_headers()
            if body:
                self.send_part(name, content, start, end, ranged=bool(byte_range) and not byte_range.endswith("-"))

        def send_part(self, name: str, content: bytes, start: int, end: int, ranged: bool) -> None:
            part = content[start:end]
            if name in hub.spoiled and not ranged:
                part = bytes(byte ^ 255 for byte in part[:10]) + part[10:]
            cuts = hub.cuts.get(name)
            cut = cuts.pop(0) if cuts and not ranged else len(part)
            for at in range(0, cut, 1 << 14):
                self.wfile.write(part[at : min(cut, at + (1 << 14))])
                time.sleep(0 if ranged else hub.pace)
            if not ranged:
                hub.sent[name] = hub.sent.get(name, 0) + len(part[:cut])
            if cut < len(part):
                self.close_connection = True

    return Handler


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub, reachable at ``hub.address`` while the block runs."""
    with loopback.serving(handler(hub)) as hub.address:
        yield hub


def ask_here(hub: Hub, patch: pytest.MonkeyPatch) -> None:
    """Let huggingface_hub ask the hub in this process, too: it reads its environment once, when it is imported."""
    from huggingface_hub import constants

    patch.setenv("NO_PROXY", "127.0.0.1")
    patch.setenv("no_proxy", "127.0.0.1")
    for name, value in {
        "ENDPOINT": hub.address,
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
    }.items():
        patch.setattr(constants, name, value)
