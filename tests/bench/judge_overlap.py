"""Generate and judge together, beside one after the other: the same answers, two slow services on this machine.

``python -m tests.bench.judge_overlap DATA [ROUNDS]`` prints one line a round and the medians. Model and judge are
OpenAI-compatible services on loopback that take a fixed time a request, so that what is measured is the scheduling.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from orchestrator.execution.attempt import judge, run
from orchestrator.report.judge_agreement import reader
from sweeps.load import build

SCENARIOS = ["ROD", "MVP-N", "IN-C", "QD"]
"""Those with two accepted answers, so that one reply is a verdict on all of them."""
AT_ONCE = 8
"""Requests that each service has in flight."""
MODEL, JUDGE = 0.30, 0.30
"""Seconds a request takes."""


@contextmanager
def service(text: str, seconds: float) -> Iterator[str]:
    """A service that always says ``text``; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            time.sleep(seconds)
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            body = json.dumps({"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def table(data: str, output: Path, model: str, judge: str | None) -> dict[str, Any]:
    """An open-ended sweep of one served model, with or without its judge."""

    def entry(name: str, url: str) -> dict[str, Any]:
        return {"name": name, "source": "m", "in_flight": AT_ONCE, "endpoint": {"base_url": url, "key_env": ""}}

    found = {
        "name": "overlap", "data": data, "output": str(output), "model": [entry("served", model)],
        "scenarios": SCENARIOS, "conditions": ["zero-shot", "hint"], "protocol": "oeg", "tracking": {"uri": "none"},
        "open_ended": {"selection": {"limit": 60}},
    }  # fmt: skip
    return found | ({"judge": {"model": entry("reader", judge)}} if judge else {})


def main(data: str, rounds: int = 3) -> None:
    from orchestrator.execution.ray_cluster import connect

    connect()
    together, apart = [], []
    with service("It is blocked, please move it.", MODEL) as model, service("1,0", JUDGE) as says:
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                whole = run(build(table(data, Path(folder, "a"), model, says), "bench"), Path(folder, "a"), say=quiet)
                together.append(time.perf_counter() - began)
                began = time.perf_counter()
                later = build(table(data, Path(folder, "b"), model, None), "bench")
                run(later, Path(folder, "b"), say=quiet)
                both = build(table(data, Path(folder, "b"), model, says), "bench")
                judge(later, Path(folder, "b"), reader(both), say=quiet)
                apart.append(time.perf_counter() - began)
                answers = int(whole.rows["answered"].sum())
            print(
                f"round {number + 1}: {answers} answers, together {together[-1]:.1f} s, apart {apart[-1]:.1f} s",
                flush=True,
            )
    one, other = statistics.median(together), statistics.median(apart)
    print(f"(h) generate + judge   together {one:.1f} s   one after the other {other:.1f} s   ratio {one / other:.2f}")


def quiet(line: str) -> None:
    """What an attempt says is not this bench's business."""


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
