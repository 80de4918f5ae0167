"""Names of the tracker's runs, the order of its metrics, and its queries to MLflow."""

from types import SimpleNamespace

import pytest

from orchestrator.tracking.mlflow import run as runs
from orchestrator.tracking.mlflow import traces
from orchestrator.tracking.mlflow.run import FIRST_METRICS, MlflowRun
from orchestrator.tracking.mlflow.run_tree import RunTree, cell_run_name


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("mcqa", "m · ROD · hint"), ("oeg", "m · ROD · hint · oeg"), ("tools", "m · ROD · hint · tools")],
)
def test_the_name_of_a_cell_has_its_protocol_unless_it_is_multiple_choice(protocol, name):
    assert cell_run_name({"model": "m", "scenario": "ROD", "condition": "hint", "protocol": protocol}) == name


def test_accuracy_and_suggestions_come_first():
    assert FIRST_METRICS == ("acc", "ps", "aggregate", "category", "suggestion")


def test_folders_that_gave_episodes_are_named_in_one_tag(monkeypatch):
    tags = []

    def open_tree(self, run):
        self.client = SimpleNamespace(set_tag=lambda *tag: tags.append(tag))
        self.experiment, self.parent, self.folder = "1", "sweep", "folder"

    monkeypatch.setattr(RunTree, "__init__", open_tree)
    monkeypatch.setattr(runs.saved_views, "send", lambda *arguments: None)
    monkeypatch.setattr(runs, "describe_experiment", lambda *arguments: None)
    monkeypatch.setattr(runs.reused, "sentences", lambda folder: ["3 of a", "5 of b"])
    MlflowRun(SimpleNamespace(roster=SimpleNamespace(conditions=())))

    assert tags == [("sweep", "reused", "3 of a; 5 of b")]


def test_traces_are_asked_for_without_their_spans(monkeypatch):
    """With them an answer of 200 traces takes MLflow seconds."""
    queries, sent = [], []

    def search(**query):
        queries.append(query)
        trace = SimpleNamespace(info=SimpleNamespace(tags={traces.KEY: "a"}))
        page = type("Page", (list,), {"token": None})
        return page([trace])

    monkeypatch.setattr(traces, "_send", lambda run, transcript, ended: sent.append(transcript.key))
    run = SimpleNamespace(
        experiment="7", mark="sweep", uri="sqlite:///unused.db", client=SimpleNamespace(search_traces=search)
    )
    traces.send_transcripts(run, [SimpleNamespace(key="a"), SimpleNamespace(key="b")], 5)

    assert sent == ["b"] and len(queries) == 1
    assert (queries[0]["locations"], queries[0]["include_spans"]) == (["7"], False)
    assert queries[0]["filter_string"] == f"tags.`{traces.MARK}` = 'sweep'"
