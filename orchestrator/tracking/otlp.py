"""The OpenTelemetry tracker: an attempt at a sweep as one trace, and its progress as metrics, sent by OTLP over HTTP.

The trace has a span for the attempt and one for each cell, which ends when the cell is complete. Headers, such as a collector's
key, come from the environment alone (``OTEL_EXPORTER_OTLP_HEADERS``). Needs the extra ``otel``.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from actors.text.printable import printable
from envs.errors import RunFolderError
from orchestrator.storage import software
from orchestrator.storage.progress_log import Point
from orchestrator.tracking.tracked_run import TrackedRun

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SCHEMES = {"otlp": "http", "otlps": "https"}
"""Scheme of ``[tracking] uri`` -> that of the collector."""
METRICS_INTERVAL_S = 15.0
REQUEST_TIMEOUT_S, CLOSE_TIMEOUT_S = 5, 20.0
PREFIX = "proactive_sweep"
LOGGER = logging.getLogger("opentelemetry")


def collector_address(uri: str) -> str:
    """Return ``http://HOST:PORT`` of ``otlp://HOST:PORT``; raises RunFolderError for a login or no host."""
    parts = urlsplit(uri)
    if not parts.hostname or "@" in parts.netloc:
        raise RunFolderError(
            "tracking.uri must look like otlp://HOST:4318 (otlps:// for https); keys belong into OTEL_EXPORTER_OTLP_HEADERS"
        )
    return f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}"


class OtlpTracker:
    """Sends one attempt at a sweep to an OpenTelemetry collector, or to another server that accepts OTLP, such as MLflow's."""

    enabled = True

    def __init__(self, run: TrackedRun) -> None:
        """Raises RunFolderError for a bad address or without the extra ``otel``."""
        self.run, self.address = run, collector_address(run.uri)
        self._cells: dict[str, Span] = {}
        self._complete: set[str] = set()
        self._gauges: dict[str, Any] = {}
        self._data: dict[str, str] = {}
        self._refused = _Refusals()
        try:
            self._open_providers()
        except ImportError:
            raise RunFolderError(
                "tracking.uri names OpenTelemetry, which needs: pip install 'proactive-sweep[otel]'"
            ) from None

    def _open_providers(self) -> None:
        """Create providers for this run alone, because the process's global ones belong to Ray."""
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": "proactive-sweep", "service.version": software.version()})
        spans = OTLPSpanExporter(f"{self.address}/v1/traces", timeout=REQUEST_TIMEOUT_S)
        metrics = OTLPMetricExporter(f"{self.address}/v1/metrics", timeout=REQUEST_TIMEOUT_S)
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._traces.add_span_processor(BatchSpanProcessor(spans))
        reader = PeriodicExportingMetricReader(metrics, METRICS_INTERVAL_S * 1000)
        self._metrics = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._tracer, self._meter = self._traces.get_tracer(PREFIX), self._metrics.get_meter(PREFIX)

    def start(self) -> None:
        """Begin the span of the attempt."""
        self._refused.listen()
        parameters = {f"{PREFIX}.{name}": value for name, value in self.run.params.items()}
        self._attempt = self._tracer.start_span(self.run.name, attributes={**parameters, **self._data})

    def dataset(self, description: Mapping[str, Any]) -> None:
        """Keep name and digest of the data set for the span of the attempt; called before ``start``."""
        self._data = {f"{PREFIX}.data.{name}": str(description[name]) for name in ("name", "digest")}

    def cell(self, row: Mapping[str, Any]) -> None:
        """Set the newest figures of a cell's span; end it once the cell is complete."""
        name = str(row["cell"])
        if name in self._complete:
            return
        if name not in self._cells:
            self._cells[name] = self._start_cell(row)
        for figure, value in row.items():
            if isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
                self._cells[name].set_attribute(f"{PREFIX}.{figure}", value)
        if row["finished"] == row["planned"]:
            self._cells.pop(name).end()
            self._complete.add(name)

    def _start_cell(self, row: Mapping[str, Any]) -> Span:
        from opentelemetry.trace import set_span_in_context

        model = {"gen_ai.request.model": str(row["model"]), "gen_ai.operation.name": "chat"}
        return self._tracer.start_span(str(row["cell"]), set_span_in_context(self._attempt), attributes=model)

    def progress(self, point: Point) -> None:
        """Set gauges: finished episodes, and every metric of the point."""
        for name, value in {"episodes_finished": float(point.done), **point.metrics}.items():
            if name not in self._gauges:
                self._gauges[name] = self._meter.create_gauge(f"{PREFIX}.{re.sub('[^A-Za-z0-9_.-]', '.', name)}")
            self._gauges[name].set(value)

    def artifacts(self, paths: Sequence[Path]) -> None:
        """Do nothing: OTLP has no files; they are in the run folder."""

    def close(self, status: str, timeout: float | None = None) -> None:
        """End all spans and send what is left; print one sentence if the collector refused something."""
        from opentelemetry.trace import Status, StatusCode

        for span in (*self._cells.values(), self._attempt):
            span.set_attribute(f"{PREFIX}.status", status)
            span.set_status(Status(StatusCode.OK if status == "FINISHED" else StatusCode.ERROR, None))
            span.end()
        wait_ms = int(1000 * (CLOSE_TIMEOUT_S if timeout is None else timeout))
        sent = self._traces.force_flush(wait_ms)
        self._traces.shutdown()
        self._metrics.shutdown(wait_ms)
        self._refused.end()
        if not sent or self._refused.count:
            reason = f": {self._refused.first}" if self._refused.first else ""
            text = f"OpenTelemetry: {self.address} did not take everything of {self.run.folder}{reason}"
            print(f"{printable(text)}; the run folder has all of it", file=sys.stderr, flush=True)


class _Refusals(logging.Handler):
    """Counts the failures that OpenTelemetry's exporters log, and hides their log lines."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count, self.first = 0, ""

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        self.first = self.first or record.getMessage().splitlines()[0][:200].rstrip(".")

    def listen(self) -> None:
        """Receive OpenTelemetry's log lines instead of other handlers."""
        LOGGER.addHandler(self)
        LOGGER.propagate = False

    def end(self) -> None:
        LOGGER.removeHandler(self)
        LOGGER.propagate = True
