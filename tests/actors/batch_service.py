"""A real HTTP service on a loopback port that keeps OpenAI's Batch API as its guide and reference describe it.

Files, batches that advance with every poll, output in shuffled order, an error file, expiry, limits, and chat completions
that answer the same body with the same words. What it bills is counted by ``custom_id``.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

from tests.actors.service import Answer, completion, failure

STEPS = ("validating", "in_progress", "in_progress", "finalizing")
"""The status that the first polls of a batch return."""


def answer_by_hash(body: dict[str, Any]) -> Answer:
    """A letter that depends on the whole request and on nothing else."""
    return completion("ABCDEF"[sha256(json.dumps(body, sort_keys=True).encode()).digest()[0] % 6])


@dataclass
class BatchService:
    """The service's state, the requests it got, and its configured behavior."""

    answer: Callable[[dict[str, Any]], Answer] = answer_by_hash
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    """``custom_id`` -> answers that were billed."""
    single: int = 0
    """Chat completions that were asked one by one."""
    calls: int = 0
    keys: set[str] = field(default_factory=set)
    steps: tuple[str, ...] = STEPS
    hold: bool = False
    """Nothing is completed meanwhile."""
    expire: Callable[[int, str], bool] = lambda batch, name: False
    """Which requests the batch of this number does not reach within its window."""
    fault: Callable[[int, str], str] = lambda call, path: ""
    """Of the call of this number: ``500`` before it has an effect, ``lost`` after it."""
    limit: int = 200_000_000
    """Bytes of a file."""
    queue: int | None = None
    """Requests of one batch that fit into the account's queue."""
    metadata: bool = True
    problem: str = ""
    """Error code with which every batch fails its validation."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def sizes(self) -> list[int]:
        """Requests of each batch, oldest first."""
        return [batch["request_counts"]["total"] for batch in self.batches.values()]

    # -- the API ------------------------------------------------------------------------------------------------------
    def handle(self, method: str, path: str, query: str, content: bytes, kind: str) -> tuple[int, Any]:
        """Status and body of a call."""
        parts = path.removeprefix("/v1/").split("/")
        match (method, *parts):
            case ("POST", "chat", "completions"):
                self.single += 1
                status, _, body = self.answer(json.loads(content))
                return status, body
            case ("POST", "files"):
                return self.upload(content, kind)
            case ("DELETE", "files", name):
                return (200, {"id": name, "deleted": True}) if self.files.pop(name, None) is not None else _absent()
            case ("GET", "files", name, "content"):
                return (200, self.files[name]) if name in self.files else _absent()
            case ("POST", "batches"):
                return self.create(json.loads(content))
            case ("GET", "batches"):
                return self.page(query)
            case ("GET", "batches", name):
                return (200, self.look(self.batches[name])) if name in self.batches else _absent()
            case ("POST", "batches", name, "cancel"):
                self.batches[name]["status"] = "cancelled"
                return 200, self.batches[name]
        return _absent()

    def upload(self, content: bytes, kind: str) -> tuple[int, Any]:
        fields = _multipart(content, kind)
        assert fields["purpose"] == b"batch"
        if len(fields["file"]) > self.limit:
            return 413, failure(413, "file_too_large", "the file is too large")[2]
        name = f"file-{len(self.files) + self.calls}"
        self.files[name] = fields["file"]
        return 200, {"id": name, "object": "file", "bytes": len(fields["file"]), "purpose": "batch"}

    def create(self, fields: dict[str, Any]) -> tuple[int, Any]:
        assert fields["endpoint"] == "/v1/chat/completions" and fields["completion_window"] == "24h"
        assert len(fields["metadata"]) <= 16 and all(
            len(key) <= 64 and isinstance(value, str) and len(value) <= 512 for key, value in fields["metadata"].items()
        )
        lines = [json.loads(line) for line in self.files[fields["input_file_id"]].splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines) <= 50_000
        assert all(line["method"] == "POST" and line["url"] == fields["endpoint"] for line in lines)
        number = len(self.batches)
        batch = {
            "id": f"batch_{number}", "object": "batch", "endpoint": fields["endpoint"], "errors": None, "status": "validating",
            "input_file_id": fields["input_file_id"], "completion_window": "24h", "output_file_id": None, "error_file_id": None,
            "created_at": 1_700_000_000 + number, "metadata": fields["metadata"] if self.metadata else None,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }  # fmt: skip
        self.batches[batch["id"]] = batch
        code = self.problem or ("token_limit_exceeded" if self.queue is not None and len(lines) > self.queue else "")
        if code:
            batch["status"], batch["failed_at"] = "failed", batch["created_at"] + 60
            problem = {"code": code, "message": "no \x1b[31mroom", "param": None, "line": 1}
            batch["errors"] = {"object": "list", "data": [problem]}
        batch["lines"] = lines
        return 200, _public_fields(batch)

    def look(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Advance the batch by one step and return it."""
        if batch["status"] in STEPS:
            step = self.looks[batch["id"]]
            self.looks[batch["id"]] += 1
            batch["status"] = self.steps[min(step, len(self.steps) - 1)]
            if step >= len(self.steps) and not self.hold:
                self.work(batch)
        return _public_fields(batch)

    def work(self, batch: dict[str, Any]) -> None:
        """Answer the batch's requests in shuffled order."""
        number, good, bad = int(batch["id"][6:]), list[Any](), list[Any]()
        lines = list(batch.pop("lines"))
        Random(number).shuffle(lines)
        expired = False
        for line in lines:
            entry = {"id": f"batch_req_{len(good)}", "custom_id": line["custom_id"], "response": None, "error": None}
            if self.expire(number, line["custom_id"]):
                expired = True
                bad.append(
                    {**entry, "error": {"code": "batch_expired", "message": "This request could not be executed."}}
                )
                continue
            status, _, body = self.answer(line["body"])
            entry["response"] = {"status_code": status, "request_id": "r", "body": body}
            (good if status == 200 else bad).append(entry)
            if status == 200:
                self.paid[line["custom_id"]] += 1
        for key, rows in (("output", good), ("error", bad)):
            if rows:
                batch[f"{key}_file_id"] = name = f"file-{key}-{number}"
                self.files[name] = "".join(json.dumps(row) + "\n" for row in rows).encode()
        batch["status"] = "expired" if expired else "completed"
        batch[f"{batch['status']}_at"] = batch["created_at"] + 3600
        batch["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}

    def page(self, query: str) -> tuple[int, Any]:
        """Return two batches per page, newest first; the API takes a ``limit`` of 1 to 100."""
        limit = re.search(r"limit=(\d+)", query)
        if limit and not 1 <= int(limit[1]) <= 100:
            return 400, failure(400, "integer_above_max_value", "limit is above 100")[2]
        after = re.search(r"after=(\w+)", query)
        names = list(reversed(self.batches))
        start = names.index(after[1]) + 1 if after else 0
        rows = [_public_fields(self.batches[name]) for name in names[start : start + 2]]
        return 200, {"object": "list", "data": rows, "has_more": len(names) > start + 2}


def _public_fields(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in batch.items() if key != "lines"}


def _absent() -> tuple[int, Any]:
    return 404, failure(404, "", "no such thing")[2]


def _multipart(content: bytes, kind: str) -> dict[str, bytes]:
    fields = {}
    boundary = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    for part in content.split(boundary)[1:-1]:
        head, _, body = part[2:-2].partition(b"\r\n\r\n")
        fields[re.search(rb' name="(\w+)"', head)[1].decode()] = body
    return fields


@contextmanager
def batch_service(**behaviour: Any) -> Iterator[BatchService]:
    """Run the service for the duration of the block."""
    service = BatchService(**behaviour)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            path, _, query = self.path.partition("?")
            with service.lock:
                service.calls += 1
                service.keys.add(self.headers.get("authorization", ""))
                fault = service.fault(service.calls, f"{self.command} {path}")
                status, body = 500, failure(500, "", "out of order")[2]
                if fault != "500":
                    status, body = service.handle(
                        self.command, path, query, content, self.headers["content-type"] or ""
                    )
            if fault == "lost":
                self.close_connection = True
                return
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = do

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()
