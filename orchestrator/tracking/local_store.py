"""The MLflow database in a run folder: written ahead, and its files found again after the folder was copied or moved."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

NAME = "mlflow.db"
"""In the run folder."""
FILES = "/mlartifacts"
"""How the address of a run folder's files ends."""
PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("trace_tags", "value"),
)
"""Tables and columns of MLflow's schema that say where files lie."""

log = logging.getLogger(__name__)


def move_files(database: Path, place: str) -> None:
    """Have a copied store name the files beside it: MLflow has no call for that, and would write into the original.

    ``place`` is the address of the files now. A schema that is not known stays as it is.
    """
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(database)) as store, store:
            rows = store.execute(
                "SELECT artifact_location FROM experiments WHERE artifact_location LIKE ?", ("%" + FILES,)
            )
            for (old,) in rows.fetchall():
                if old != place:
                    _move(store, old, place)
    except sqlite3.Error as problem:
        log.info("where the files of %s lie is not known: %s", database, problem)


def _move(store: sqlite3.Connection, old: str, place: str) -> None:
    for table, column in PLACES:
        store.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (place, len(old) + 1, old, len(old) + 1, old + "/"),
        )


def write_ahead() -> None:
    """SQLite in write-ahead mode: five to ten times as many runs a second, and readers do not block.

    Nothing waits for the disk: ``track`` rebuilds a database that a power cut tears, and the store's own fsync goes first.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    if not event.contains(Engine, "connect", _pragmas):
        event.listen(Engine, "connect", _pragmas)


def settle(database: Path) -> None:
    """Move what was written ahead into the database, so that the file alone is whole: somebody will copy it."""
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(database)) as store:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as problem:
        log.info("%s stays beside what was written ahead of it: %s", database, problem)


def _pragmas(connection: Any, _: Any) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
