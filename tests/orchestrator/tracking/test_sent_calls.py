"""What MLflow's client is asked to do, call by call: runs, metrics, statuses, the data set, tables and traces."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import mlflow
import polars as pl
import pytest

from orchestrator.storage.progress_log import Point
from orchestrator.tracking.mlflow import rebuild, run_tree, traces
from orchestrator.tracking.mlflow.run import METRICS_PER_CALL, MlflowRun, Update, measures
from orchestrator.tracking.mlflow.run_tree import NestedRun
from orchestrator.tracking.tracked_run import Roster, TrackedRun
from orchestrator.tracking.transcripts import Transcript, TurnText
from tests.orchestrator.mlflow_stores import row


class Client:
    """Notes every call; a created run is named by its number."""

    def __init__(self) -> None:
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, *arguments, options) if options else (name, *arguments))
            number = sum(first == name for first, *_ in self.calls)
            return SimpleNamespace(
                info=SimpleNamespace(run_id=f"run-{number}"), trace_id="trace", span_id=f"span-{number}"
            )

        return call


def open_run(local: bool = True) -> MlflowRun:
    """Return the runs of a sweep ``s`` in the folder ``f``, of the model m0 and the baseline m1, none of them created yet."""
    run = object.__new__(MlflowRun)
    run.client, run.experiment, run.parent, run.began, run.mark = Client(), "7", "sweep", 5_000, "0123"
    run.metrics, run.best_model, run.models, run.cells = {}, "", {}, {}
    run.title, run.local, run.roster = "s · f", local, Roster(("m0", "m1"), frozenset({"m1"}), ("hint",))
    return run


def numbers(metrics):
    return [(metric.key, metric.value, metric.timestamp, metric.step) for metric in metrics]


def test_a_cell_has_a_run_below_its_models():
    run = open_run()
    for number in (0, 1, 0):
        run.cell_run(row(number))
    tags = {"proactive_sweep.mirror": "0123", "kind": "model"}
    models, cells = ([call[-1] for call in run.client.calls[first::2]] for first in (0, 1))

    assert [call[:2] for call in run.client.calls] == [("create_run", "7")] * 4
    assert models[0] == {
        "start_time": 6_000, "run_name": "m0",
        "tags": {**tags, "model": "m0", "mlflow.parentRunId": "sweep", "level": "model", "mlflow.runType": "evaluation"},
    }  # fmt: skip
    assert cells[0] == {
        "start_time": 4_999, "run_name": "m0 · QD · hint",
        "tags": {
            **tags, "cell": "m0/QD/hint", "model": "m0", "scenario": "QD", "condition": "hint", "protocol": "mcqa",
            "mlflow.parentRunId": "run-1", "level": "cell",
        },
    }  # fmt: skip
    assert (models[1]["start_time"], models[1]["tags"]["kind"]) == (5_999, "baseline")
    assert (cells[1]["start_time"], cells[1]["tags"]["mlflow.parentRunId"]) == (4_998, "run-3")
    assert open_run(local=False).model_run("m0") == NestedRun("run-1", "RUNNING", {"model": "m0"})
    served = open_run(local=False)
    served.model_run("m0")
    assert served.client.calls[0][-1]["run_name"] == "m0 · s · f", "a server has the runs of many folders"


def test_a_status_is_set_once():
    run, nested = open_run(), NestedRun("a", "RUNNING", {})
    for status in ("RUNNING", "FAILED", "FAILED", "RUNNING"):
        run.set_status(nested, status)

    assert run.client.calls == [("set_terminated", "a", "FAILED"), ("update_run", "a", {"status": "RUNNING"})]


def test_a_nested_run_has_the_names_and_numbers_of_its_cell():
    nested = NestedRun("a", "RUNNING", {"cell": "c"}, {"acc": 5.0}, planned=3)

    assert nested.row == {"cell": "c", "planned": 3, "acc": 5.0}
    assert NestedRun("a", "RUNNING", {"cell": "c"}).row == {"cell": "c"}
    info, tags = SimpleNamespace(run_id="a", status="FAILED"), {"model": "m", "other": "x"}
    stored = SimpleNamespace(info=info, data=SimpleNamespace(tags=tags, metrics={"acc": 5.0}, params={"kind": "model"}))
    assert run_tree._nested(stored, ("model", "scenario")) == NestedRun(
        "a", "FAILED", {"model": "m", "scenario": ""}, {"acc": 5.0}, {"kind": "model"}
    )


def test_tags_of_an_adopted_run_are_set_where_they_differ():
    run = open_run()
    tags = {"model": "m1", "mlflow.parentRunId": "sweep", "level": "cell"}
    run._attach(SimpleNamespace(info=SimpleNamespace(run_id="a"), data=SimpleNamespace(tags=tags)), "sweep", "model")

    assert run.client.calls == [
        ("set_tag", "a", "proactive_sweep.mirror", "0123"), ("set_tag", "a", "level", "model"),
        ("set_tag", "a", "kind", "baseline"),
    ]  # fmt: skip


def test_points_that_change_nothing_are_skipped():
    run = open_run()
    run.send_points([Point(done=2, at=10, rate=1.5), Point(done=2, at=20, rate=1.5), Point(done=3, at=30, rate=1.5)])
    ((name, parent, options),) = run.client.calls

    assert (name, parent) == ("log_batch", "sweep")
    assert numbers(options["metrics"]) == [
        ("episodes_done", 2.0, 10, 2), ("rate", 1.5, 10, 2), ("episodes_done", 3.0, 30, 3), ("rate", 1.5, 30, 3)
    ]  # fmt: skip
    assert run.metrics == {"episodes_done": 3.0, "rate": 1.5}


def test_many_points_take_several_calls():
    run = open_run()
    run.send_points([Point(done=number, at=number) for number in range(METRICS_PER_CALL + 1)])

    assert [len(options["metrics"]) for _, _, options in run.client.calls] == [900, 1]


def test_the_first_metrics_of_a_run_come_with_its_parameters():
    run, nested = (
        open_run(),
        NestedRun("a", "RUNNING", {"cell": "m1/QD/hint", "model": "m1"}, {"acc": 5.0}, {"sweep": "s"}),
    )
    run._send_metrics(nested, {"acc": 5.0}, 10, 2)
    assert run.client.calls == []
    for acc in (6.0, 7.0):
        run._send_metrics(nested, {"acc": acc, "ps": 1.0}, 10, 2, {"condition": "hint"})
    first, second = (call[-1] for call in run.client.calls)

    assert [call[:2] for call in run.client.calls] == [("log_batch", "a")] * 2
    assert numbers(first["metrics"]) == [("acc", 6.0, 10, 2), ("ps", 1.0, 10, 2)]
    assert [(param.key, param.value) for param in first["params"]] == [
        ("kind", "baseline"), ("model", "m1"), ("condition", "hint")
    ]  # fmt: skip
    assert numbers(second["metrics"]) == [("acc", 7.0, 10, 2)] and second["params"] == []


def test_cells_their_models_and_the_sweep_get_what_changed():
    run = open_run()
    rows = [{**row(0), "at": 10}, {**row(1, finished=3, acc=80.0), "at": 30}, {**row(2, finished=0), "at": 20}]
    run.send_cells(rows)
    batches = {call[1]: call[-1] for call in run.client.calls if call[0] == "log_batch"}
    names = {nested.id: name for name, nested in {**run.models, **run.cells}.items()}

    assert {names.get(run_id, run_id) for run_id in batches} == {"m0", "m1", "m0/QD/hint", "m1/QD/hint", "sweep"}
    assert {nested.names["model"]: (nested.status, nested.planned) for nested in run.cells.values()} == {
        "m0": ("FINISHED", 10), "m1": ("RUNNING", 10), "m2": ("RUNNING", 10)
    }  # fmt: skip
    assert {name: nested.status for name, nested in run.models.items()} == {
        "m0": "FINISHED", "m1": "RUNNING", "m2": "RUNNING"
    }  # fmt: skip
    sent = {key: (value, at, step) for key, value, at, step in numbers(batches["sweep"]["metrics"])}
    assert sent["best_acc"] == sent["acc"] == (50.0, 30, 13), "a baseline is never the best"
    assert ("set_tag", "sweep", "best_model", "m0") in run.client.calls and run.best_model == "m0"
    model = {key: (value, at, step) for key, value, at, step in numbers(batches[run.models["m1"].id]["metrics"])}
    assert model["acc"] == (80.0, 30, 3) and run.models["m1"].params["condition"] == "hint"
    before = len(run.client.calls)
    run.send_cells(rows)
    run.send_cells([])
    assert len(run.client.calls) == before, "nothing has changed"


@pytest.mark.parametrize(("status", "left"), [("FINISHED", "FAILED"), ("KILLED", "KILLED"), ("FAILED", "FAILED")])
def test_what_is_unfinished_at_the_end_never_becomes_finished(monkeypatch, status, left):
    described = []
    monkeypatch.setattr("orchestrator.tracking.mlflow.run.describe_experiment", lambda *what: described.append(what[1]))
    run = open_run()
    run.models = {"m0": NestedRun("a", "RUNNING", {}), "m1": NestedRun("b", "FINISHED", {})}
    run.cells = {"c": NestedRun("c", "RUNNING", {})}
    run.end(status)

    assert run.client.calls == [
        ("set_terminated", name, end) for name, end in (("sweep", status), ("a", left), ("c", left))
    ]
    assert described == ["7"]


def test_an_update_sends_files_last_and_only_those_that_exist(tmp_path, monkeypatch):
    run, order = open_run(), []
    for name in ("send_points", "send_dataset", "send_cells", "end", "send_files"):
        monkeypatch.setattr(MlflowRun, name, lambda self, *_, name=name: order.append(name))
    run.send(Update({}, dataset={"name": "d"}, status="FINISHED"))
    run.send(Update())
    monkeypatch.undo()
    (tmp_path / "a").touch()
    run.send_files([tmp_path / "a", tmp_path / "b"])

    assert order == [
        "send_points", "send_dataset", "send_cells", "end", "send_files", "send_points", "send_cells", "send_files"
    ]  # fmt: skip
    assert run.client.calls == [("log_artifact", "sweep", str(tmp_path / "a"))]


def test_updates_are_merged_with_the_newest_rows_and_the_last_points():
    old = Update({"a": {"n": 1}, "b": {"n": 1}}, (Point(done=0, at=0),), ("x",), {"name": "d"}, "")
    new = Update({"a": {"n": 2}}, tuple(Point(done=n, at=n) for n in range(1, 901)), ("y", "x"), None, "FAILED")
    both = old.merge(new)

    assert both.cells == {"a": {"n": 2}, "b": {"n": 1}} and both.files == ("x", "y")
    assert (both.dataset, both.status) == ({"name": "d"}, "FAILED")
    assert [point.done for point in both.points] == list(range(1, 901)), "the oldest point is dropped"
    assert new.merge(Update()).status == "FAILED"


def test_measures_are_finite_numbers_of_a_cell():
    cell = {**row(0), "at": 5, "flag": True, "cost": float("nan"), "seconds": float("inf"), "planned": 10}

    assert list(measures(cell)) == ["acc", "ps", "planned", "finished", "errors", "acc_low", "acc_high"]
    assert measures(cell)["acc"] == 50.0


def test_the_data_set_is_an_input_of_the_sweep():
    run = open_run()
    run.send_dataset({"name": "d: QD", "digest": "ab", "source": {"uri": "x"}, "schema": {}, "profile": {"samples": 3}})
    ((name, parent, (entry,)),) = run.client.calls

    assert (name, parent) == ("log_inputs", "sweep")
    assert (entry.dataset.name, entry.dataset.digest, entry.dataset.source_type) == ("d: QD", "ab", "local")
    assert (entry.dataset.source, entry.dataset.schema, entry.dataset.profile) == (
        '{"uri": "x"}',
        "{}",
        '{"samples": 3}',
    )
    assert [(tag.key, tag.value) for tag in entry.tags] == [("mlflow.data.context", "evaluation")]


def test_tables_are_sent_as_json_that_mlflow_shows(monkeypatch):
    run, sent = open_run(), {}
    monkeypatch.setattr(rebuild, "_send", lambda run, name, content: sent.update({name: json.loads(content)}))
    frame = pl.DataFrame({"name": ["a", None], "x": [1.23456, float("nan")], "n": [True, False], "many": [[1], [2]]})
    rebuild.send_tables(run, {"cells": frame, "none": frame.clear()})

    assert sent == {
        "tables/cells.json": {
            "columns": ["name", "x", "n", "many"], "data": [["a", 1.235, True, "[1]"], [None, None, False, "[2]"]]
        },
        "tables/none.json": {"columns": ["name", "x", "n", "many"], "data": []},
    }  # fmt: skip
    assert rebuild._json_value(float("inf")) is None and rebuild._json_value(3) == 3
    ((name, parent, tag, value),) = run.client.calls
    assert (name, parent, tag) == ("set_tag", "sweep", "mlflow.loggedArtifacts")
    assert json.loads(value) == [{"path": f"tables/{name}.json", "type": "table"} for name in ("cells", "none")]


TURN = TurnText("turn 1 · category", "Which?", "A", "Read as category.", "no picture", {"frame": "0"})


def test_turns_of_a_trace_share_the_time_of_its_episode():
    run = open_run()
    shown = Transcript("k", "name", {"kind": "correct"}, (TURN, TURN), "correct after 2 turns.", 2.0, True)
    traces._send(run, shown, 10_000_000_000)
    trace, first, first_end, second, second_end, end = run.client.calls

    asked = {"role": "user", "content": "Which?\n\n(no picture: ` no picture `)"}
    told = [{"role": "assistant", "content": "A"}, {"role": "system", "content": "Read as category."}]
    assert trace == ("start_trace", "name", {
        "span_type": "AGENT", "inputs": {"messages": [asked, *told] * 2}, "experiment_id": "7", "run_id": "sweep",
        "start_time_ns": 8_000_000_000,
        "tags": {"kind": "correct", "proactive_sweep.mirror": "0123", "proactive_sweep.episode": "k"},
    })  # fmt: skip
    assert first == ("start_span", "turn 1 · category", "trace", "span-1", {
        "span_type": "CHAT_MODEL", "inputs": {"messages": [asked]}, "attributes": {"frame": "0"},
        "start_time_ns": 8_000_000_000,
    })  # fmt: skip
    assert second[-1]["start_time_ns"] == first_end[-1]["end_time_ns"] == 9_000_000_000
    assert first_end[:3] == ("end_span", "trace", "span-1") and second_end[-1]["end_time_ns"] == 10_000_000_000
    assert first_end[-1]["outputs"] == {
        "choices": [{"message": {"role": "assistant", "content": "A"}}], "verdict": "Read as category."
    }  # fmt: skip
    last = {"role": "assistant", "content": "Ended: correct after 2 turns."}
    assert end == ("end_trace", "trace", {
        "outputs": {"choices": [{"message": last}]}, "end_time_ns": 10_000_000_000, "status": "OK"
    })  # fmt: skip


def test_an_episode_without_turns_or_time_has_a_trace_of_a_millisecond():
    run = open_run()
    traces._send(run, Transcript("k", "name", {}, (), "refused after 0 turns.", 0.0, False), 10_000_000)
    trace, end = run.client.calls

    assert (trace[-1]["start_time_ns"], trace[-1]["inputs"]) == (9_000_000, {"messages": []})
    assert end[-1]["status"] == "ERROR"


def test_a_picture_stands_before_its_question():
    picture = TurnText("n", "Which?", "A", "v", "data:image/png;base64,AA", {})

    assert traces._input(picture) == {"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}, {"type": "text", "text": "Which?"},
    ]}  # fmt: skip


class Page(list):
    token = None


def stored_run(number, tags, **fields):
    info = SimpleNamespace(run_id=number, start_time=fields.pop("start", 5_000), status="FINISHED")
    return SimpleNamespace(info=info, data=SimpleNamespace(tags=tags, metrics={}, params={}, **fields))


def tracked(**params):
    return SimpleNamespace(name="s", params=params)


def test_a_sweep_without_a_run_gets_one_with_its_description(tmp_path):
    run = open_run()
    run.folder, queries = tmp_path, []
    run.client.search_runs = lambda **query: queries.append(query) or Page()
    created = stored_run("new", {"level": "sweep"})
    run.client.create_run = lambda experiment, **options: run.client.calls.append((experiment, options)) or created

    assert run._open_parent(tracked(seed="3", uri="http://user:secret@host", models="x" * 600)) == ("new", 5_000)
    assert [query["filter_string"] for query in queries] == ["tags.`proactive_sweep.mirror` = '0123'"]
    assert queries[0]["experiment_ids"] == ["7"]
    (experiment, options), (name, parent, batch) = run.client.calls
    tags = options["tags"]
    note = tags.pop("mlflow.note.content")
    assert (experiment, options) == ("7", {
        "tags": {"proactive_sweep.mirror": "0123", "level": "sweep", "sweep": "s"}, "run_name": "s · f"
    })  # fmt: skip
    assert note.startswith("The sweep **s** on ProactiveBench: models see pictures that do not show enough")
    assert note.endswith(f"`proactive-sweep track {tmp_path.name}`. That command rebuilds everything here from the run "
                         "folder, which is the source.\n")  # fmt: skip
    assert (name, parent) == ("log_batch", "new")
    assert {param.key: param.value for param in batch["params"]} == {
        "seed": "3", "uri": "http://***@host", "models": "x" * 500
    }  # fmt: skip


def test_a_sweep_that_goes_on_takes_over_its_runs():
    run = open_run()
    tags = {"proactive_sweep.mirror": "0123", "kind": "model", "model": "m0"}
    model = stored_run("m", {**tags, "mlflow.parentRunId": "old", "level": "model"})
    cell_tags = {**tags, "mlflow.parentRunId": "m", "level": "cell", "cell": "c", "scenario": "QD"}
    parent = stored_run("old", {"level": "sweep", "best_model": "m0"}, start=77)
    parent.data.metrics, parent.data.params = {"acc": 5.0}, {"seed": "3"}
    run.client.search_runs = lambda **query: Page([stored_run("c", cell_tags), model, parent])

    assert run._open_parent(tracked(seed="4")) == ("old", 77)
    assert run.client.calls == [("update_run", "old", {"status": "RUNNING"})], "no parameter is replaced"
    assert (run.metrics, run.best_model) == ({"acc": 5.0}, "m0")
    assert run.models == {"m0": NestedRun("m", "FINISHED", {"model": "m0"})}
    names = {"cell": "c", "model": "m0", "scenario": "QD", "condition": "", "protocol": ""}
    assert run.cells == {"c": NestedRun("c", "FINISHED", names)}


def test_runs_of_the_first_version_get_models_and_tags():
    run = open_run()
    parent = stored_run("old", {"proactive_sweep.mirror": "0123"})
    cell = stored_run("c", {"mlflow.parentRunId": "old", "cell": "c", "model": "m0"})
    pages = {"proactive_sweep.mirror": Page([parent]), "mlflow.parentRunId": Page([cell])}
    run.client.search_runs = lambda filter_string, **query: pages[filter_string.split("`")[1]]
    run._open_parent(tracked())

    assert run.client.calls[1][0] == "create_run" and run.client.calls[1][-1]["tags"]["level"] == "model"
    assert [call for call in run.client.calls if call[0] == "set_tag"] == [
        ("set_tag", "c", "mlflow.parentRunId", "run-1"), ("set_tag", "c", "proactive_sweep.mirror", "0123"),
        ("set_tag", "c", "level", "cell"), ("set_tag", "c", "kind", "model"), ("set_tag", "old", "level", "sweep"),
    ]  # fmt: skip


def test_an_experiment_of_another_folder_is_never_used(tmp_path):
    run = open_run()
    run.folder, run.uri = tmp_path, "sqlite:///x"
    files = (tmp_path / "mlartifacts").resolve().as_uri()
    place = {"s": ("1", "file:///elsewhere", "active"), "s (2)": ("2", files, "deleted")}
    experiments = {
        name: SimpleNamespace(experiment_id=number, artifact_location=location, lifecycle_stage=stage)
        for name, (number, location, stage) in place.items()
    }
    run.client.get_experiment_by_name = experiments.get
    assert run._open_experiment("s") == "2" and run.client.calls == [("restore_experiment", "2")]

    del experiments["s (2)"]
    run.client.create_experiment = lambda name, artifact_location: f"{name} at {artifact_location}"
    assert run._open_experiment("s") == f"s (2) at {files}"
    run.local, run.uri = False, "http://host"
    assert run._open_experiment("s") == "1" and run._open_experiment("t") == "t at None"


@pytest.mark.parametrize(("uri", "local", "title"), [("sqlite", True, "s"), ("http://host", False, "other · s")])
def test_a_tree_of_runs_knows_whether_it_is_in_its_own_folder(tmp_path, monkeypatch, uri, local, title):
    folder, opened = tmp_path / "s", []
    folder.mkdir()
    monkeypatch.setattr(run_tree, "open_client", lambda address: opened.append(address))
    monkeypatch.setattr(run_tree.RunTree, "_open_experiment", lambda self, name: f"experiment {name}")
    monkeypatch.setattr(run_tree.RunTree, "_open_parent", lambda self, run: ("parent", 9))
    tree = run_tree.RunTree(TrackedRun(uri, "e", folder, title.split(" ")[0], {}))

    assert (tree.local, tree.title, tree.experiment, tree.parent, tree.began) == (
        local,
        title,
        "experiment e",
        "parent",
        9,
    )
    assert opened == [tree.uri] and tree.uri == (f"sqlite:///{folder.resolve()}/mlflow.db" if local else uri)
    (entry,) = json.loads((folder / "mlflow.json").read_text()).values()
    assert (entry["mark"], entry["experiment"], entry["parent"]) == (tree.mark, "experiment e", "parent")


@pytest.mark.parametrize("before", [{}, {"MLFLOW_TRACKING_URI": "x", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "true"}])
def test_the_environment_is_as_before_once_traces_are_sent(monkeypatch, before):
    names = ("MLFLOW_TRACKING_URI", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING")
    for name in names:
        monkeypatch.setenv(name, before.get(name, ""))
        if name not in before:
            monkeypatch.delenv(name)
    with traces._tracking_uri("sqlite:///unused.db"):
        assert mlflow.get_tracking_uri() == "sqlite:///unused.db"
        assert os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] == "false"

    assert {name: os.environ[name] for name in names if name in os.environ} == before
