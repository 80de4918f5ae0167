"""A sweep as an OpenTelemetry trace: read back by a collector, and by MLflow's server, which takes OTLP."""

from __future__ import annotations

import gzip
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from envs.errors import RunFolderError
from orchestrator.storage.progress_log import Point
from orchestrator.tracking.otlp import collector_address
from orchestrator.tracking.tracked_run import TrackedRun
from orchestrator.tracking.tracker import is_mlflow, open_tracker
from tests.orchestrator.mlflow_stores import client, closed_address, row
from tests.orchestrator.rayhead import free_ports
from tests.orchestrator.tracking.test_outages import server

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `otel` is not installed")


class Collector(BaseHTTPRequestHandler):
    """Keeps the messages that it receives."""

    messages: dict[str, list[bytes]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
        self.messages.setdefault(self.path, []).append(body)
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def collector():
    handler = type("Handler", (Collector,), {"messages": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield handler, f"otlp://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def play(folder, uri: str) -> None:
    """Record an attempt with one complete cell and one that is not."""
    tracker = open_tracker(TrackedRun(uri, "e", folder, "my-sweep", {"seed": "3"}))
    tracker.dataset({"name": "demo", "digest": "0123abcd"})
    tracker.start()
    tracker.cell(row(0, finished=4))
    tracker.cell(row(0, finished=10))
    tracker.cell(row(1, finished=4))
    tracker.progress(Point(done=14, at=1, episodes_per_second=2.5))
    tracker.artifacts([folder])
    tracker.close("KILLED", 5.0)


def read_spans(messages) -> dict:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = {}
    for body in messages["/v1/traces"]:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                spans |= {span.name: span for span in scope.spans}
    return spans


def read_value(span, name: str):
    (value,) = (attribute.value for attribute in span.attributes if attribute.key == name)
    return getattr(value, value.WhichOneof("value"))


def test_an_attempt_is_a_trace_of_cells_and_gauges(collector, tmp_path, capsys):
    handler, uri = collector
    play(tmp_path, uri)
    spans = read_spans(handler.messages)
    complete, partial, attempt = (spans[name] for name in (row(0)["cell"], row(1)["cell"], "my-sweep"))

    assert len(spans) == 3 and {span.trace_id for span in spans.values()} == {attempt.trace_id}
    assert complete.parent_span_id == partial.parent_span_id == attempt.span_id
    assert (
        read_value(complete, "proactive_sweep.finished") == 10 and read_value(complete, "proactive_sweep.acc") == 50.0
    )
    assert read_value(complete, "gen_ai.request.model") == row(0)["model"]
    assert complete.status.code == 0 and partial.status.code == attempt.status.code == 2, (
        "a killed attempt is no success"
    )
    assert read_value(complete, "gen_ai.operation.name") == "chat"
    assert [read_value(span, "proactive_sweep.status") for span in (partial, attempt)] == ["KILLED"] * 2
    assert read_value(partial, "proactive_sweep.acc_low") == 40.0 and "proactive_sweep.loops" not in {
        attribute.key for attribute in partial.attributes
    }, "a measure without a value is left out"
    assert read_value(attempt, "proactive_sweep.data.digest") == "0123abcd"
    assert read_value(attempt, "proactive_sweep.data.name") == "demo"
    assert read_value(attempt, "proactive_sweep.seed") == "3"

    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    request = ExportMetricsServiceRequest.FromString(handler.messages["/v1/metrics"][-1])
    metrics = {m.name: m.gauge.data_points[0].as_double for m in request.resource_metrics[0].scope_metrics[0].metrics}
    assert metrics == {"proactive_sweep.episodes_finished": 14.0, "proactive_sweep.episodes_per_second": 2.5}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fault", ["refuses", "is away"])
def test_a_collector_that_fails_costs_one_sentence(collector, tmp_path, capsys, fault):
    handler, uri = collector
    handler.status = 400
    play(tmp_path, uri if fault == "refuses" else closed_address().replace("http", "otlp"))

    error = capsys.readouterr().err
    assert error.startswith("OpenTelemetry: http://127.0.0.1:") and error.count("\n") == 1
    assert f" did not take everything of {tmp_path}: " in error, "with the reason"
    assert "did not take everything" in error and error.endswith("; the run folder has all of it\n")


@pytest.mark.parametrize("uri", ["otlp://", "otlp://me:secret@host:4318"])
def test_a_bad_address_is_refused_without_its_login(uri):
    with pytest.raises(RunFolderError, match=r"otlp://HOST:4318 .* OTEL_EXPORTER_OTLP_HEADERS") as refusal:
        collector_address(uri)
    assert "secret" not in str(refusal.value)


def test_addresses():
    assert collector_address("otlps://collector.example/otel/") == "https://collector.example/otel"
    assert is_mlflow("sqlite") and is_mlflow("http://x") and not is_mlflow("none") and not is_mlflow("otlp://x")


@pytest.mark.long
def test_mlflows_server_reads_the_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-mlflow-experiment-id=0")
    (port,) = free_ports(1)
    with server(tmp_path, port):
        play(tmp_path, f"otlp://127.0.0.1:{port}")
        (trace,) = client(f"http://127.0.0.1:{port}").search_traces(["0"])
    spans = {span.name: span for span in trace.data.spans}

    assert spans.keys() == {"my-sweep", row(0)["cell"], row(1)["cell"]}
    assert spans[row(0)["cell"]].attributes["proactive_sweep.acc"] == 50.0
    assert spans[row(0)["cell"]].parent_id == spans["my-sweep"].span_id
