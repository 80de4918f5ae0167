"""Addresses and marks of a run folder, and the files of its database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from orchestrator.tracking import client
from tests.orchestrator.mlflow_stores import cells, row, runs, send

ADDRESS = "http://user:secret@host:5000/base/"


def test_a_folder_keeps_its_mark_when_it_is_moved_and_stores_no_password(tmp_path):
    folder, moved = tmp_path / "run", tmp_path / "moved"
    folder.mkdir()
    mark = client.read_mark(folder, ADDRESS)
    client.remember(folder, ADDRESS, mark=mark, experiment="7", parent="r")
    folder.rename(moved)

    assert len(mark) == 16 and client.read_mark(moved, ADDRESS) == mark != client.read_mark(moved, "http://other")
    assert json.loads((moved / "mlflow.json").read_text()) == {
        "http://***@host:5000/base/": {"mark": mark, "experiment": "7", "parent": "r"}
    }
    client.remember(moved, "http://[::1", mark=mark, experiment="8")  # as somebody may write into the file
    own, foreign = client.pages(moved)
    assert own.startswith("http://host:5000/base/#/experiments/7/") and foreign.startswith(
        "http://[::1/#/experiments/8/"
    )


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
        for table, column in client.ADDRESS_COLUMNS:
            store.execute(f"CREATE TABLE {table} ({column} TEXT)")
        for table, end in (("experiments", ""), ("runs", "/7/artifacts"), ("trace_tags", "/7/traces")):
            store.execute(f"INSERT INTO {table} VALUES (?)", (f"file:///old/mlartifacts{end}",))
    return path


def test_files_of_a_copied_database_are_in_its_own_folder(database):
    client.keep_files_inside(database, "file:///new/mlartifacts")
    with closing(sqlite3.connect(database)) as store:
        queries = [f"SELECT {column} FROM {table}" for table, column in client.ADDRESS_COLUMNS]
        addresses = [address for query in queries for (address,) in store.execute(query)]

    assert addresses == [f"file:///new/mlartifacts{end}" for end in ("", "/7/artifacts", "/7/traces")]
    client.keep_files_inside(database.with_name("absent.db"), "file:///new/mlartifacts")
    assert not database.with_name("absent.db").exists()


@pytest.mark.parametrize(
    "place", ["s3://user:secret@bucket/x", "/home/me/.ssh", "file:///new", "INSIDE/../..", "INSIDE/%2e%2e/a", "INSIDEx"]
)
@pytest.mark.parametrize("column", ["experiments SET artifact_location", "runs SET artifact_uri"])
def test_a_database_that_keeps_files_outside_its_folder_is_refused(folder, place, column):
    send(folder, [row(0)])
    with closing(sqlite3.connect(folder / "mlflow.db")) as store, store:
        inside = (folder / "mlartifacts").as_uri()
        store.execute(f"UPDATE {column} = ?", (place.replace("INSIDE", inside),))
    with pytest.raises(
        ValueError, match=r"mlflow.db keeps files at .*, outside its folder; move mlflow.db away$"
    ) as error:
        send(folder, [row(0)])
    assert "secret" not in str(error.value)


def test_a_damaged_database_stays_as_it_is(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"no database " * 100)
    client.checkpoint(path)
    client.keep_files_inside(path, "file:///new/mlartifacts")

    assert path.read_bytes() == b"no database " * 100
