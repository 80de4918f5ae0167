"""The MLflow database in a run folder: fast to write, a single file once closed, and usable after the folder is copied."""

import logging
import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from actors.text.redaction import redact_address

LOCAL = "sqlite"
"""The ``tracking.uri`` of a database in the run folder."""
NAME = "mlflow.db"
FILES = "/mlartifacts"
"""How the address of a run folder's files ends."""
ADDRESS_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("trace_tags", "value"),
)
"""Tables and columns of MLflow's schema that hold addresses of files."""

log = logging.getLogger(__name__)


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


def relocate_files(database: Path, address: str) -> None:
    """Make a copied database refer to the files in its own folder, at ``address``: otherwise MLflow writes into the original.

    MLflow has no call for this. A database with an unknown schema stays as it is.
    """
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(database)) as store, store:
            rows = store.execute(
                "SELECT artifact_location FROM experiments WHERE artifact_location LIKE ?", ("%" + FILES,)
            )
            for (old,) in rows.fetchall():
                if old != address:
                    _replace_addresses(store, old, address)
    except sqlite3.Error as error:
        log.info("%s keeps the addresses of its files: %s", database, error)


def check_files_local(database: Path) -> None:
    """Raise ValueError if a run in a database, which may come from someone else, keeps its files on another machine."""
    if not database.is_file():
        return
    addresses: list[str] = []
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(database)) as store,
    ):  # MLflow itself reports a damaged database
        for table, column in ADDRESS_COLUMNS[:2]:
            rows = store.execute(f"SELECT {column} FROM {table} WHERE {column} LIKE '%://%'")
            addresses += [str(address) for (address,) in rows]
    if remote := [address for address in addresses if not address.startswith("file:///")]:
        raise ValueError(f"{database} keeps files at {redact_address(remote[0])}; move that database away")


def _replace_addresses(store: sqlite3.Connection, old: str, address: str) -> None:
    for table, column in ADDRESS_COLUMNS:
        store.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (address, len(old) + 1, old, len(old) + 1, old + "/"),
        )


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
    if not database.is_file():
        return
    try:
        with closing(sqlite3.connect(database)) as store:
            store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        log.info("%s keeps its write-ahead log: %s", database, error)


def _set_pragmas(connection: Any, _: Any) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
