"""MLflow's client with settings for a sweep, and what every user of it shares."""

import logging
import os
import time
from collections.abc import Callable
from typing import Any

from actors.text.redaction import redact_addresses
from orchestrator.tracking import local_store

CLIENT_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
}
"""Set unless the user set them: with MLflow's own defaults, a call blocks for 247 seconds when a server is gone."""
PAGE_SIZE = 200
"""Runs or traces that one search returns, so that an answer stays far under the time-out."""
MAX_REASON_CHARS = 200


def open_client(uri: str) -> Any:
    """Return MLflow's client of an address; importing MLflow takes seconds."""
    os.environ.update({**CLIENT_DEFAULTS, **os.environ})
    # otherwise MLflow prints the server's address, with its password, whenever a run ends
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    if uri.startswith("sqlite"):
        local_store.enable_write_ahead()
    from mlflow.tracking import MlflowClient

    for logger in ("mlflow", "alembic"):  # they log how they create their tables
        logging.getLogger(logger).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def all_pages(search: Callable[..., Any], **query: Any) -> list[Any]:
    """Return every result of a paged search of MLflow's client."""
    page = search(**query, max_results=PAGE_SIZE)
    results = list(page)
    while page.token:
        page = search(**query, max_results=PAGE_SIZE, page_token=page.token)
        results += page
    return results


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return int(time.time() * 1000)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without passwords."""
    lines = redact_addresses(str(error)).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:MAX_REASON_CHARS]
