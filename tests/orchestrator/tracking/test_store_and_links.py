"""Addresses and marks of a run folder, and the files of its database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from orchestrator.tracking import links, local_store
from tests.orchestrator.mlflow_stores import cells, row, runs, send

ADDRESS = "http://user:secret@host:5000/base/"


def test_a_folder_keeps_its_mark_and_another_sweep_gets_its_own(tmp_path):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    folder.mkdir()
    first = links.mark(folder, ADDRESS, "s1")
    assert len(first) == 16 and links.mark(folder, ADDRESS, "s2") == first, "the place is the same"
    links.remember(folder, ADDRESS, mark=first, experiment="7")
    folder.rename(copy)

    assert links.mark(copy, ADDRESS, "s2") == first, "the sweep is the same"
    stored = json.loads((copy / "mlflow.json").read_text())
    assert list(stored) == ["http://***@host:5000/base/"], "a password is never stored"
    (entry,) = stored.values()
    assert (entry["mark"], entry["experiment"], entry["sweep"]) == (first, "7", "s2")
    copy.rename(folder)
    copy.mkdir()
    (copy / "mlflow.json").write_text((folder / "mlflow.json").read_text())
    links.mark(folder, ADDRESS, "s2")
    assert links.mark(copy, ADDRESS, "s3") == first, "it holds the place of the copy"
    copy.rename(tmp_path / "third")
    links.mark(tmp_path / "third", ADDRESS, "s4")
    (entry,) = json.loads((tmp_path / "third/mlflow.json").read_text()).values()
    assert entry["mark"] != first and "experiment" not in entry, "facts of another mark are dropped"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sqlite": 3}', b"\xff\x00", b'{"x": {"mark": "\' OR 1=1"}}'])
def test_a_broken_record_starts_new_runs(folder, content):
    (folder / "mlflow.json").write_bytes(content)
    send(folder, [row(0)])

    assert len(cells(runs(folder))) == 1


@pytest.fixture
def database(tmp_path):
    """A database with the columns of MLflow that hold addresses."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as store, store:
        for table, column in local_store.ADDRESS_COLUMNS:
            store.execute(f"CREATE TABLE {table} ({column} TEXT)")
        for table, end in (("experiments", ""), ("runs", "/7/artifacts"), ("trace_tags", "/7/traces")):
            store.execute(f"INSERT INTO {table} VALUES (?)", (f"file:///old/mlartifacts{end}",))
    return path


def test_files_of_a_copied_database_are_in_its_own_folder(database):
    local_store.keep_files_inside(database, "file:///new/mlartifacts")
    with closing(sqlite3.connect(database)) as store:
        addresses = [
            address
            for table, column in local_store.ADDRESS_COLUMNS
            for (address,) in store.execute(f"SELECT {column} FROM {table}")
        ]

    assert addresses == [f"file:///new/mlartifacts{end}" for end in ("", "/7/artifacts", "/7/traces")]
    local_store.keep_files_inside(database.with_name("absent.db"), "file:///new/mlartifacts")
    assert not database.with_name("absent.db").exists()


def test_files_on_other_machines_are_refused_without_the_password(database):
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("INSERT INTO runs VALUES ('s3://user:secret@bucket/x')")
    with pytest.raises(ValueError, match=r"mlflow.db keeps files at s3://\*\*\*@bucket/x; move that database away$"):
        local_store.keep_files_inside(database, "file:///new/mlartifacts")


def test_a_damaged_database_stays_as_it_is(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"no database " * 100)
    local_store.checkpoint(path)
    local_store.keep_files_inside(path, "file:///new/mlartifacts")

    assert path.read_bytes() == b"no database " * 100
