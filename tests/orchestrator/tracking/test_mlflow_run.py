"""The runs of a sweep in MLflow: found again, never doubled, and in the order of the page; with real stores."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import polars as pl
import pytest

from envs.errors import RunFolderError
from envs.installed import Offer, PackageError
from orchestrator.tracking.rebuild import _stored_address, read_results, track
from tests.orchestrator.mlflow_stores import (
    cells,
    client,
    closed_address,
    models,
    parent,
    row,
    runs,
    send,
    write_run_files,
)

ROOT = Path(__file__).parents[3]


def test_77_cells_are_nested_runs(folder):
    send(folder, [{**row(number), "model": f"m{number % 11}"} for number in range(77)])
    mlflow_runs = runs(folder)
    top, nested = parent(mlflow_runs), cells(mlflow_runs)

    assert set(nested) == {f"m{number}/QD/hint" for number in range(77)}
    assert set(models(mlflow_runs)) == {f"m{number}" for number in range(11)}
    assert {name: top.data.metrics[name] for name in ("acc", "models", "errors")} == {
        "acc": 50.0, "models": 11.0, "errors": 0.0,
    }  # fmt: skip
    assert {run.info.status for run in mlflow_runs} == {"FINISHED"}
    cell, names = nested["m7/QD/hint"], {"model": "m7", "scenario": "QD", "condition": "hint", "protocol": "mcqa"}
    assert cell.info.run_name == "m7 · QD · hint" and names.items() <= cell.data.tags.items()
    assert cell.data.params == {**names, "kind": "model", "sweep": f"sweep · {folder.name}"}
    above = models(mlflow_runs)["m7"]
    assert cell.data.tags["mlflow.parentRunId"] == above.info.run_id
    assert above.data.tags["mlflow.parentRunId"] == top.info.run_id
    assert "loops" not in cell.data.metrics, "no value is no zero"


def test_resumed_sweep_continues_same_runs(folder):
    send(folder, [row(0, finished=4), row(1)], status="KILLED")
    first = runs(folder)
    send(folder, [row(0, acc=70.0), row(1)], params={"models": "m0, m1, m2", "conditions": "hint", "seed": "1"})
    again = runs(folder)

    assert {run.info.run_id for run in again} == {run.info.run_id for run in first}
    assert [cells(again)[f"m{n}/QD/hint"].data.metrics["acc"] for n in (0, 1)] == [70.0, 50.0]
    assert [cells(first)[f"m{n}/QD/hint"].info.status for n in (0, 1)] == ["KILLED", "FINISHED"]
    assert {run.info.status for run in again} == {"FINISHED"}
    assert parent(again).data.params == {"models": "m0, m1", "conditions": "hint", "seed": "1"}, "written once"
    history = client(folder).get_metric_history(cells(again)["m1/QD/hint"].info.run_id, "acc")
    assert len(history) == 1, "what did not change is not sent again"


def test_copied_folder_updates_only_its_own_runs(folder, tmp_path):
    write_run_files(folder, [row(0)])
    track(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "mlflow.db" not in path.name}
    write_run_files(copy, [row(0, acc=2.0)])
    subprocess.run([sys.executable, "-m", "orchestrator", "track", str(copy)], cwd=ROOT, timeout=120, check=True)
    copied, original = runs(copy), runs(folder)

    assert {run.info.run_id for run in copied} == {run.info.run_id for run in original}
    assert [run.data.metrics["acc"] for run in (*cells(copied).values(), *cells(original).values())] == [2.0, 50.0]
    assert {run.info.artifact_uri for run in copied} == {
        f"{(copy / 'mlartifacts').as_uri()}/{run.info.run_id}/artifacts" for run in copied
    }
    assert client(copy).list_artifacts(parent(copied).info.run_id), "the files are found where the copy lies"
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "mlflow.db" not in path.name}
    assert before == after


def test_copies_of_a_folder_share_their_runs_and_another_folder_does_not(folder, tmp_path):
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    folders = [tmp_path / name for name in ("one", "two", "other")]
    for sweep_folder in folders:
        sweep_folder.mkdir()
    send(folders[0], [row(0)], uri=uri)
    for sweep_folder in folders[1:]:
        shutil.copy(folders[0] / "mlflow.json", sweep_folder)
    send(folders[1], [row(0, acc=1.0)], uri=uri)
    (folders[2] / "mlflow.json").unlink()
    send(folders[2], [row(0, acc=2.0)], uri=uri)
    mlflow_runs = runs(folder)

    assert len(mlflow_runs) == 2 * 3
    assert sorted(run.data.metrics["acc"] for run in mlflow_runs if run.data.tags["level"] == "cell") == [1.0, 2.0]
    names = {run.info.run_name for run in mlflow_runs if run.data.tags["level"] == "model"}
    assert names == {"m0 · sweep · one", "m0 · sweep · other"}


def test_baselines_are_separate_and_sweep_names_best_model(folder):
    roster = {"models": ("m0", "m1", "m2"), "baselines": frozenset({"m0"}), "conditions": ("hint",)}
    send(folder, [row(0, acc=100.0), row(1, acc=20.0), row(2, acc=40.0)], **roster)
    mlflow_runs = runs(folder)
    top, below = parent(mlflow_runs), models(mlflow_runs)

    assert (top.data.metrics["acc"], top.data.metrics["best_acc"], top.data.tags["best_model"]) == (30.0, 40.0, "m2")
    assert [below[name].data.params["kind"] for name in ("m0", "m1", "m2")] == ["baseline", "model", "model"]
    assert below["m2"].data.metrics["acc/QD"] == below["m2"].data.metrics["acc_under/hint"] == 40.0
    newest = [run.data.tags["level"] + run.data.tags.get("model", "") for run in mlflow_runs]
    assert newest == ["modelm1", "modelm2", "modelm0", "sweep", "cellm1", "cellm2", "cellm0"], "as the page sorts them"


def test_track_rebuilds_mirror_from_folder_without_duplicates(folder):
    rows = [row(0, acc=200 / 3), row(1), row(2, finished=4)]
    write_run_files(folder, rows, tracking={"uri": "none"}, seed=3)
    track(folder)
    track(folder)
    mlflow_runs = runs(folder)
    nested = cells(mlflow_runs)

    assert parent(mlflow_runs).data.params.items() >= {"models": "m0", "seed": "3", "sampling.max_tokens": "50"}.items()
    assert "episodes_per_second" not in parent(mlflow_runs).data.metrics, "a rate that nobody measured is not made up"
    assert [nested[f"m{n}/QD/hint"].info.status for n in range(3)] == ["FINISHED", "FINISHED", "FAILED"]
    assert models(mlflow_runs)["m2"].info.status == parent(mlflow_runs).info.status == "FAILED"
    assert nested["m0/QD/hint"].data.metrics["acc"] == 66.67, "the page shows every decimal that it gets"
    assert len(client(folder).get_metric_history(nested["m1/QD/hint"].info.run_id, "acc")) == 1


def test_track_refuses_a_folder_without_results_and_a_missing_server(tmp_path):
    with pytest.raises(RunFolderError, match="holds no run; `proactive-sweep run"):
        track(tmp_path)
    write_run_files(tmp_path, [row(0)], tracking={"uri": "http://***@host"})
    with pytest.raises(RunFolderError, match="type the whole address as --tracking-uri"):
        track(tmp_path)
    with pytest.raises(RunFolderError, match="did not accept the runs") as caught:
        track(tmp_path, closed_address().replace("//", "//me:hidden@"))
    assert "hidden" not in str(caught.value) and "\n" not in str(caught.value)
    pl.DataFrame([{"cell": "c"}]).write_parquet(tmp_path / "results.parquet")
    with pytest.raises(RunFolderError, match=r"no results to send \(.*\); run its sweep first: proactive-sweep run$"):
        read_results(tmp_path)
    (tmp_path / "sweep.resolved.toml").write_text('name = "sweep"\ntracking = 3\n')
    with pytest.raises(RunFolderError, match="toml is damaged or of another version"):
        track(tmp_path)


def test_a_bridge_that_cannot_be_imported_is_named_before_anything_is_sent(tmp_path, monkeypatch):
    write_run_files(tmp_path, [row(0)])
    offer = Offer("bridge", "track", "own", "1.0", EntryPoint("track", "absent:send", "proactive_sweep.bridges"))
    monkeypatch.setattr("envs.installed._find_offers", lambda kind, path: (offer,))
    with pytest.raises(PackageError, match=r"the bridge 'track' of the installed package own 1\.0 cannot be imported"):
        track(tmp_path)
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize(
    "uri", ["https://evil.example/mlflow", "http://10.0.0.1:5000", "databricks", "sqlite:////srv/x.db"]
)
def test_a_strangers_address_is_refused_unless_the_user_named_it(uri, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(RunFolderError, match=r"names the tracking address .*; add `--tracking-uri "):
        _stored_address(Path("run"), uri)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert _stored_address(Path("run"), uri) == uri


@pytest.mark.parametrize("uri", ["sqlite", "http://127.0.0.1:5000", "http://localhost:5000", "http://[::1]:5000"])
def test_own_file_and_local_addresses_need_no_option(uri):
    assert _stored_address(Path("run"), uri) == uri
    assert _stored_address(Path("run"), "none") == _stored_address(Path("run"), "otlp://host") == "sqlite"
