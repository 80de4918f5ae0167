"""A server on loopback that speaks the Hub's protocol as far as an upload needs it: repositories, large files apart, commits."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from tests import loopback

COMMIT = "2e" * 20


@dataclass
class UploadHub:
    """What the server holds, and what it was asked."""

    token: str
    private: dict[str, bool] = field(default_factory=dict)
    """Data set -> whether it is private."""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Data set -> path -> content."""
    stored: dict[str, bytes] = field(default_factory=dict)
    """SHA-256 -> bytes of a large file."""
    commits: int = 0
    asked: list[str] = field(default_factory=list)
    """Method and path of every request that came."""
    ignored: set[str] = field(default_factory=set)
    """Paths that the repository's .gitignore keeps out."""
    refusal: int = 0
    """Status that every commit is answered with, if not 0."""
    address: str = ""


def handler(hub: UploadHub) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one server, one class
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def send_json(self, content: object, status: int = 200, **headers: str) -> None:
            encoded = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def handle_one(self) -> None:
            path, content = unquote(urlsplit(self.path).path), self.body()
            hub.asked.append(f"{self.command} {path}")
            if path.startswith("/large/"):
                hub.stored[path.removeprefix("/large/")] = content
                return self.send_json({})
            if self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self.send_json({"error": "Invalid credentials"}, 401)
            return self.api(path, content)

        do_GET = do_POST = do_PUT = handle_one

        def api(self, path: str, content: bytes) -> None:
            if path == "/api/repos/create":
                fields = json.loads(content)
                name = f"{fields['organization']}/{fields['name']}"
                hub.private[name], hub.files[name] = fields["visibility"] == "private", {}
                return self.send_json({"url": f"{hub.address}/datasets/{name}", "name": name})
            if path == "/api/validate-yaml":
                return self.send_json({"errors": [], "warnings": []})
            repository = path.removeprefix("/api").removeprefix("/datasets").removeprefix("/models")
            name = "/".join(repository.strip("/").split("/")[:2])
            name = name.removesuffix(".git")
            if name not in hub.files:
                return self.send_json({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            return self.repository(name, path, content)

        def repository(self, name: str, path: str, content: bytes) -> None:
            files = hub.files[name]
            if path.endswith("/preupload/main"):
                listed = json.loads(content)["files"]
                return self.send_json({"files": [self.mode(entry["path"]) for entry in listed]})
            if path.endswith("/info/lfs/objects/batch"):
                objects = json.loads(content)["objects"]
                return self.send_json({"transfer": "basic", "objects": [self.large(entry) for entry in objects]})
            if path.endswith("/commit/main"):
                return self.commit(name, files, [json.loads(line) for line in content.splitlines()])
            if "/tree/" in path:
                return self.send_json(
                    [{"type": "file", "path": p, "size": len(c), "oid": "0" * 40} for p, c in files.items()]
                )
            return self.send_json(
                {"id": name, "sha": COMMIT, "private": hub.private[name], "tags": [],
                 "siblings": [{"rfilename": path} for path in files]}
            )  # fmt: skip

        def mode(self, path: str) -> dict[str, object]:
            large = path.endswith(".parquet")
            return {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": path in hub.ignored}

        def large(self, entry: dict[str, object]) -> dict[str, object]:
            return {**entry, "actions": {"upload": {"href": f"{hub.address}/large/{entry['oid']}", "header": {}}}}

        def commit(self, name: str, files: dict[str, bytes], lines: list[dict[str, dict[str, str]]]) -> None:
            if hub.refusal:
                return self.send_json({"error": "You are not allowed to write here"}, hub.refusal)
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                if line["key"] == "lfsFile":
                    stored = hub.stored[value["oid"]]
                    assert hashlib.sha256(stored).hexdigest() == value["oid"]
                    files[value["path"]] = stored
            hub.commits += 1
            url = f"{hub.address}/datasets/{name}/commit/{COMMIT}"
            answer = {"commitUrl": url, "commitOid": COMMIT, "success": True}
            if "create_pr=1" in self.path:
                answer["pullRequestUrl"] = f"{hub.address}/{name}/discussions/1"
            return self.send_json(answer)

    return Handler


@contextmanager
def serving(hub: UploadHub) -> Iterator[UploadHub]:
    """The hub, reachable at ``hub.address`` while the block runs."""
    with loopback.serving(handler(hub)) as hub.address:
        yield hub
