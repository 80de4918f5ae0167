"""The MLflow database in a run folder: fast to write, a single file once closed, and usable after the folder is copied."""

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from actors.text.redaction import redact_address

LOCAL = "sqlite"
"""The ``tracking.uri`` of a database in the run folder."""
NAME = "mlflow.db"
ADDRESS_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("trace_tags", "value"),
)
"""Tables and columns of MLflow's schema that hold addresses of files."""


def resolve_uri(uri: str, folder: Path) -> str:
    """Return MLflow's address: ``sqlite`` is a file in the run folder, and any other address stays as it is."""
    if uri != LOCAL:
        return uri
    path = re.sub("[%?#]", lambda match: f"%{ord(match[0]):02X}", str((folder / NAME).resolve()))
    return f"sqlite:///{path}"


def remove_stray_folder(uri: str) -> None:
    """Remove the empty folder that MLflow makes beside a run folder whose name has to be quoted in an address."""
    folder = Path(uri.removeprefix("sqlite:///")).parent
    if uri.startswith("sqlite:///") and "%" in uri:
        with suppress(OSError):
            folder.rmdir()


def keep_files_inside(database: Path, address: str) -> None:
    """Make a copied database refer to the files in its own folder, at ``address``: otherwise MLflow writes into the original.

    MLflow has no call for this. Raises ValueError if the database, which may come from someone else, keeps files on another
    machine. A damaged database, or one with an unknown schema, stays as it is: MLflow reports it.
    """
    addresses: list[str] = []
    uri = f"{database.resolve().as_uri()}?mode=rw"  # a missing file stays missing
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as store, store:
        for table, column in ADDRESS_COLUMNS[:2]:
            addresses += [str(row[0]) for row in store.execute(f"SELECT {column} FROM {table}")]
        for old in {text for text in addresses if text.endswith("/mlartifacts")}:
            for table, column in ADDRESS_COLUMNS:
                changed = f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?"
                store.execute(changed, (address, len(old) + 1, len(old), old))
    if remote := [text for text in addresses if "://" in text and not text.startswith("file:///")]:
        raise ValueError(f"{database} keeps files at {redact_address(remote[0])}; move that database away")


def enable_write_ahead() -> None:
    """Have this process open SQLite in write-ahead mode: five to ten times as many runs per second, and readers do not block.

    Writes do not wait for the disk: ``track`` rebuilds a database that a power cut has torn.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    if not event.contains(Engine, "connect", _set_pragmas):
        event.listen(Engine, "connect", _set_pragmas)


def checkpoint(database: Path) -> None:
    """Move the write-ahead log into the database, so that a copy of the file alone is complete."""
    if database.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as store:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _set_pragmas(connection: Any, _: Any) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
