"""What talks to MLflow, part by part: addresses and marks of a folder, files of its database, the sender's sentences."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from multiprocessing import Pipe
from types import SimpleNamespace

import polars as pl
import pytest

from envs.errors import RunFolderError
from orchestrator.tracking.mlflow import client, links, local_store, process, rebuild
from orchestrator.tracking.mlflow.run import Update
from tests.orchestrator.mlflow_stores import row, write_run_files

ADDRESS = "http://user:secret@host:5000/base/"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("  first\nsecond"), "first"),
        (ValueError(""), "ValueError"),
        (ValueError("at http://user:secret@host"), "at http://***@host"),
        (ValueError("x" * 500), "x" * 200),
    ],
)
def test_an_error_is_one_line_without_a_password(error, line):
    assert client.first_line(error) == line


def test_a_folder_keeps_its_mark_and_another_sweep_gets_its_own(tmp_path):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    folder.mkdir()
    first = links.mark(folder, ADDRESS, "s1")
    assert len(first) == 16 and links.mark(folder, ADDRESS, "s2") == first, "the place is the same"
    links.remember(folder, ADDRESS, mark=first, experiment="7")
    folder.rename(copy)

    assert links.mark(copy, ADDRESS, "s2") == first, "the sweep is the same"
    (entry,) = json.loads((copy / "mlflow.json").read_text()).values()
    assert (entry["mark"], entry["experiment"], entry["sweep"]) == (first, "7", "s2")
    copy.rename(folder)
    copy.mkdir()
    (copy / "mlflow.json").write_text((folder / "mlflow.json").read_text())
    links.mark(folder, ADDRESS, "s2")
    assert links.mark(copy, ADDRESS, "s3") == first, "it holds the place of the copy"
    links.remember(copy, ADDRESS, mark="other", parent="p")
    (entry,) = json.loads((copy / "mlflow.json").read_text()).values()
    assert entry == {"mark": "other", "parent": "p"}, "facts of another mark are dropped"


def test_a_password_is_never_stored(tmp_path):
    links.mark(tmp_path, ADDRESS, "s")
    links.mark(tmp_path, local_store.resolve_uri("sqlite", tmp_path), "s")

    assert list(json.loads((tmp_path / "mlflow.json").read_text())) == ["http://***@host:5000/base/", "sqlite"]
    assert (tmp_path / "mlflow.json").read_text().endswith("}\n")


def test_pages_of_a_folder_are_addresses_that_a_browser_opens(tmp_path):
    links.remember(tmp_path, ADDRESS, mark="m", experiment="7")
    links.remember(tmp_path, "https://other", mark="m", experiment="x")
    links.remember(tmp_path, "databricks", mark="m", experiment="8")
    links.remember(tmp_path, local_store.resolve_uri("sqlite", tmp_path), mark="m", experiment="9")
    end = "runs?viewStateShareKey=proactive-sweep-models"

    assert list(links.pages(tmp_path)) == [
        f"http://host:5000/base/#/experiments/7/{end}",
        f"mlflow ui --backend-store-uri sqlite:///{tmp_path.resolve()}/mlflow.db, then "
        f"http://127.0.0.1:5000/#/experiments/9/{end}",
    ]
    (tmp_path / "mlflow.json").write_text("[]")
    assert list(links.pages(tmp_path)) == []


@pytest.fixture
def database(tmp_path):
    """A database with the columns of MLflow that hold addresses."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as store, store:
        for table, column in local_store.ADDRESS_COLUMNS:
            store.execute(f"CREATE TABLE {table} ({column} TEXT)")
        for table, end in (("experiments", ""), ("runs", "/7/artifacts"), ("runs", "X/7"), ("trace_tags", "/7/traces")):
            store.execute(f"INSERT INTO {table} VALUES (?)", (f"file:///old/mlartifacts{end}",))
    return path


def addresses(path):
    with closing(sqlite3.connect(path)) as store:
        return [
            address
            for table, column in local_store.ADDRESS_COLUMNS
            for (address,) in store.execute(f"SELECT {column} FROM {table}")
        ]


def test_files_of_a_copied_database_are_in_its_own_folder(database):
    local_store.relocate_files(database, "file:///new/mlartifacts")

    assert addresses(database) == [
        "file:///new/mlartifacts", "file:///new/mlartifacts/7/artifacts", "file:///old/mlartifactsX/7",
        "file:///new/mlartifacts/7/traces",
    ]  # fmt: skip
    before = database.read_bytes()
    local_store.relocate_files(database, "file:///new/mlartifacts")
    assert database.read_bytes() == before
    local_store.relocate_files(database.with_name("absent.db"), "file:///new/mlartifacts")
    assert not database.with_name("absent.db").exists()


def test_files_on_other_machines_are_refused_without_the_password(database):
    local_store.check_files_local(database)
    local_store.check_files_local(database.with_name("absent.db"))
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("INSERT INTO runs VALUES ('s3://user:secret@bucket/x')")
    with pytest.raises(ValueError, match=r"mlflow.db keeps files at s3://\*\*\*@bucket/x; move that database away$"):
        local_store.check_files_local(database)


def test_a_damaged_database_stays_as_it_is(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"no database " * 100)
    for change in (local_store.check_files_local, local_store.checkpoint):
        change(path)
    local_store.relocate_files(path, "file:///new/mlartifacts")

    assert path.read_bytes() == b"no database " * 100


def test_a_database_alone_is_whole_after_its_checkpoint(tmp_path):
    path = tmp_path / "mlflow.db"
    local_store.checkpoint(path)
    assert not path.exists()
    store = sqlite3.connect(path)
    local_store._set_pragmas(store, None)
    assert store.execute("PRAGMA synchronous").fetchone() == (0,)
    assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.execute("CREATE TABLE t (x)")
    store.commit()
    log = path.with_name("mlflow.db-wal")
    assert log.stat().st_size > 0
    local_store.checkpoint(path)

    assert log.stat().st_size == 0
    store.close()
    local_store._set_pragmas(SimpleNamespace(), None)  # another database has no such settings


class Server:
    """Accepts updates, or raises errors; ``opened`` counts the runs that were looked for."""

    def __init__(self) -> None:
        self.errors, self.opened, self.taken = [], 0, []

    def __call__(self, run):
        self.opened += 1
        return self

    def send(self, update):
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(update.status)


@pytest.fixture
def server(monkeypatch):
    made = Server()
    monkeypatch.setattr(process, "MlflowRun", made)
    return made


def test_updates_are_merged_until_the_end_of_the_sweep():
    reader, writer = Pipe(duplex=False)
    for update in (Update({"a": {"n": 1}}), Update({"b": {"n": 2}}, status="FINISHED"), Update({"c": {"n": 3}})):
        writer.send(update)
    pending = process.receive(reader, Update({"a": {"n": 0}, "z": {}}), 60.0)

    assert pending.cells == {"a": {"n": 1}, "b": {"n": 2}, "z": {}} and pending.status == "FINISHED"
    assert reader.recv().cells == {"c": {"n": 3}}, "nothing is read beyond the end"
    assert process.receive(reader, Update(files=("x",)), 0.0) == Update(files=("x",))
    assert (process.SEND_INTERVAL_S, process.RETRY_INTERVAL_S, process.MAX_CLOSING_FAILURES) == (1.0, 2.0, 2)


def test_an_address_is_taken_from_the_folder_only_if_it_is_safe(tmp_path):
    assert [rebuild._stored_address(tmp_path, uri) for uri in ("sqlite", "none", "otlp://host:4318")] == ["sqlite"] * 3
    with pytest.raises(RunFolderError) as raised:
        rebuild._stored_address(tmp_path, "http://***@host")
    assert str(raised.value) == (
        f"{tmp_path} does not store the password of http://***@host; type the whole address as --tracking-uri"
    )


def test_results_need_their_columns_and_a_sweep_with_a_name(tmp_path):
    write_run_files(tmp_path, [row(0)], tracking={"uri": "x"})
    sweep, rows = rebuild.read_results(tmp_path)
    assert sweep == {"name": "sweep", "tracking": {"uri": "x"}} and rows.height == 1
    pl.DataFrame([{"cell": "c"}]).write_parquet(tmp_path / "results.parquet")
    with pytest.raises(
        RunFolderError, match=r"has no results to send \(.*\); run its sweep first: proactive-sweep run$"
    ):
        rebuild.read_results(tmp_path)
