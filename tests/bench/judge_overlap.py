"""Generate and judge together, beside one after the other: the same answers, two slow services on this machine.

``python -m tests.bench.judge_overlap together|one-after-the-other DATA SAMPLES`` prints one JSON line. Model and judge are
OpenAI-compatible services on loopback that take a fixed time a request, so that what is measured is the scheduling.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from orchestrator.execution.attempt import judge_answers
from orchestrator.execution.run import run
from orchestrator.report.scores.judge_agreement import resolve_judge
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


def table(data: str, output: Path, samples: int, model: str, judge: str | None) -> dict[str, Any]:
    """An open-ended sweep of one served model, with or without its judge."""

    def entry(name: str, url: str) -> dict[str, Any]:
        return {"name": name, "source": "m", "in_flight": AT_ONCE, "endpoint": {"base_url": url, "key_env": ""}}

    sweep = {
        "name": "overlap", "data": data, "output": str(output), "model": [entry("served", model)],
        "scenarios": SCENARIOS, "conditions": ["zero-shot", "hint"], "protocol": "oeg", "tracking": {"uri": "none"},
        "open_ended": {"selection": {"limit": samples}},
    }  # fmt: skip
    return sweep | ({"judge": {"model": entry("reader", judge)}} if judge else {})


def run_together(data: str, samples: int, folder: Path, model: str, says: str) -> float:
    """Seconds that one run with its judge takes."""
    sweep, began = build(table(data, folder, samples, model, says), "bench"), time.perf_counter()
    run(sweep, folder, say=quiet)
    return time.perf_counter() - began


def run_apart(data: str, samples: int, folder: Path, model: str, says: str) -> float:
    """Seconds that a run without a judge takes, and the judge after it."""
    later = build(table(data, folder, samples, model, None), "bench")
    both, began = build(table(data, folder, samples, model, says), "bench"), time.perf_counter()
    run(later, folder, say=quiet)
    judge_answers(later, folder, resolve_judge(both), say=quiet)
    return time.perf_counter() - began


def main(how: str, data: str, samples: int) -> None:
    from orchestrator.execution.ray_cluster import connect

    connect()
    with (
        service("It is blocked, please move it.", MODEL) as model,
        service("1,0", JUDGE) as says,
        tempfile.TemporaryDirectory() as folder,
    ):
        seconds = MODES[how](data, samples, Path(folder, "run"), model, says)
    print(json.dumps({"how": how, "seconds": seconds}))


def quiet(line: str) -> None:
    """Ignore what an attempt prints."""


MODES = {"together": run_together, "one-after-the-other": run_apart}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.judge_overlap")
    parser.add_argument("how", choices=MODES)
    parser.add_argument("data", help="folder of a demo benchmark")
    parser.add_argument("samples", type=int, help="samples a scenario")
    main(**vars(parser.parse_args()))
