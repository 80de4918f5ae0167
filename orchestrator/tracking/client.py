"""MLflow's client with settings for a sweep, and what a run folder has of MLflow.

``mlflow.db`` is a database that is fast, one file, and usable after a copy. ``mlflow.json`` holds for each address the mark of
the folder's runs (``mlflow_run.MARK``), the experiment and the sweep's run; it stays with a folder that is copied or moved.
"""

import json
import logging
import os
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import unquote

from actors.text.redaction import redact_address, redact_addresses
from envs import regular
from orchestrator.storage import safe_write
from orchestrator.tracking.experiment_page import MODELS, link

CLIENT_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
}
"""Set unless the user set them: with MLflow's own defaults, a call blocks for 247 seconds when a server is gone."""
PAGE_SIZE = 200
"""Runs or traces that one search returns, so that an answer stays far under the time-out."""
MAX_REASON_CHARS = 200
LOCAL, NAME = "sqlite", "mlflow.db"
"""The ``tracking.uri`` of a database in the run folder, and its file."""
LINKS, MAX_LINKS_BYTES = "mlflow.json", 1 << 20
UI = "http://127.0.0.1:5000"
"""The address at which ``mlflow ui`` listens by default."""
SERVER = re.compile("(https?://)(?:[^/?#]*@)?([^?#]*)")
ADDRESS_COLUMNS = (("experiments", "artifact_location"), ("runs", "artifact_uri"), ("trace_tags", "value"))
"""Tables and columns of MLflow's schema that hold addresses of files."""


def import_client(uri: str) -> Any:
    """Return the class of MLflow's client with what an address needs; importing it takes seconds."""
    os.environ.update({**CLIENT_DEFAULTS, **os.environ})
    # otherwise MLflow prints the server's address, with its password, whenever a run ends
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    if uri.startswith("sqlite"):
        enable_write_ahead()
        import_module("mlflow.store.tracking.sqlalchemy_store")
    from mlflow.tracking import MlflowClient

    for logger in ("mlflow", "alembic"):  # they log how they create their tables
        logging.getLogger(logger).setLevel(logging.WARNING)
    return MlflowClient


def all_pages(search: Callable[..., Any], **query: Any) -> list[Any]:
    """Return every result of a paged search of MLflow's client."""
    from mlflow.utils import get_results_from_paginated_fn

    page = partial(search, **query)
    return list(get_results_from_paginated_fn(lambda most, token: page(max_results=most, page_token=token), PAGE_SIZE))


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, without passwords."""
    lines = redact_addresses(str(error)).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:MAX_REASON_CHARS]


def resolve_uri(uri: str, folder: Path) -> str:
    """Return MLflow's address: ``sqlite`` is a file in the run folder, and any other address stays as it is."""
    if uri != LOCAL:
        return uri
    path = re.sub("[%?#]", lambda match: f"%{ord(match[0]):02X}", str((folder / NAME).resolve()))
    return f"sqlite:///{path}"


def keep_files_inside(database: Path, address: str) -> None:
    """Make a copied database refer to the files in its own folder, at ``address``: otherwise MLflow writes into the original.

    MLflow has no call for this, and keeps files of its experiment ``Default`` in the working folder. A damaged database, or one
    with an unknown schema, stays as it is: MLflow reports it.
    """
    addresses: list[str] = []
    uri = f"{database.resolve().as_uri()}?mode=rw"  # a missing file stays missing
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as store, store:
        for table, column in ADDRESS_COLUMNS[:2]:
            addresses += [str(row[0]) for row in store.execute(f"SELECT {column} FROM {table}")]
        for old in {text for text in addresses if text.endswith(("/mlartifacts", "/mlruns/0"))}:
            for table, column in ADDRESS_COLUMNS:
                changed = f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?"
                store.execute(changed, (address, len(old) + 1, len(old), old))


def refuse_outside(place: str, address: str) -> None:
    """Raise ValueError if a folder's database, which may come from someone else, keeps files outside ``address``."""
    if not f"{place}/".startswith(f"{address}/") or ".." in unquote(place).split("/"):
        raise ValueError(f"{NAME} keeps files at {redact_address(place)}, outside its folder; move {NAME} away")


@cache
def enable_write_ahead() -> None:
    """Have this process open SQLite in write-ahead mode: five to ten times as many runs per second, and readers do not block.

    Writes do not wait for the disk: ``track`` rebuilds a database that a power cut has torn.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")  # type: ignore[untyped-decorator]
    def set_pragmas(connection: Any, _: Any) -> None:
        if type(connection).__module__.startswith("sqlite3"):
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")


def checkpoint(database: Path) -> None:
    """Move the write-ahead log into the database, so that a copy of the file alone is complete."""
    if database.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as store:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# -- the record of a folder's runs --------------------------------------------------------------------------------------
def read_mark(folder: Path, uri: str) -> str:
    """Return this folder's mark at this address; a new one on first use."""
    links = _links(folder)
    old = links.get(redact_address(uri), {})  # 0.1.0 stored the whole path of a local one
    mark = str(links.get(_key(folder, uri), old).get("mark"))
    return mark if re.fullmatch("[0-9a-f]{16}", mark) else token_hex(8)


def remember(folder: Path, uri: str, **facts: str) -> None:
    """Store the facts about this folder's runs at an address."""
    links = _links(folder)
    if links.get(key := _key(folder, uri)) != facts:
        safe_write.write(folder / LINKS, (json.dumps({**links, key: facts}, indent=1) + "\n").encode())


def pages(folder: Path) -> Iterator[str]:
    """Yield one line per address: how to open the charts of models in a browser; nothing before MLflow has a run."""
    for key, entry in _links(folder).items():
        experiment = str(entry.get("experiment", ""))
        if not re.fullmatch(r"\d{1,30}", experiment):
            continue
        if key == LOCAL or key.startswith("sqlite:"):
            database = shlex.quote(resolve_uri(key, folder))
            yield f"mlflow ui --backend-store-uri {database}, then {link(UI, experiment, MODELS)}"
        elif server := SERVER.match(key):
            yield link(server[1] + server[2].rstrip("/"), experiment, MODELS)


def _key(folder: Path, uri: str) -> str:
    return LOCAL if uri == resolve_uri(LOCAL, folder) else redact_address(uri)


def _links(folder: Path) -> dict[str, dict[str, Any]]:
    """Return address -> facts; empty if the file is missing or damaged."""
    links = dict[str, Any]()
    with suppress(OSError):
        links = regular.parse_fields(regular.read_bytes(folder / LINKS, MAX_LINKS_BYTES)) or {}
    return {key: entry for key, entry in links.items() if isinstance(entry, dict)}
