"""The description of a run for a tracker: its address, order of models and conditions, settings and data set, by hand."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from envs.errors import RunFolderError
from orchestrator.tracking import tracker
from orchestrator.tracking.mlflow.tracker import MlflowTracker
from orchestrator.tracking.tracked_run import EMPTY_ROSTER, Roster, TrackedRun, describe_dataset, parameters

SWEEP = {
    "name": "s",
    "seed": 7,
    "models": [{"name": "uniform", "backend": "builtin"}, {"name": "z", "backend": "vllm"}, {"name": "a"}],
    "conditions": [{"name": "hint"}, {"name": "zero-shot"}],
    "scenarios": ["ROD", "QD"],
    "protocols": ["mcqa"],
    "sampling": {"temperature": 0.5},
    "selection": {"limit": 3, "seed": 1},
    "cluster": {"gpus": 8},
    "tracking": {"uri": "http://host:5000"},
}


def test_a_run_is_described_by_its_sweep() -> None:
    folder = Path("outputs/s")
    run = TrackedRun.of(SWEEP, folder)

    assert (run.uri, run.experiment, run.folder, run.name) == ("http://host:5000", "s", folder, "s")
    assert run.params == {
        "models": "uniform, z, a", "scenarios": "ROD, QD", "conditions": "hint, zero-shot", "protocols": "mcqa",
        "seed": "7", "sampling.temperature": "0.5", "selection.limit": "3", "selection.seed": "1",
    }  # fmt: skip
    assert run.roster == Roster(("uniform", "z", "a"), frozenset({"uniform"}), ("hint", "zero-shot"))
    named = TrackedRun.of({**SWEEP, "tracking": {"uri": "none", "experiment": "e"}}, folder, "otlp://host:4318")
    assert (named.uri, named.experiment, named.name) == ("otlp://host:4318", "e", "s")
    assert parameters({"name": "s", "seed": 0}) == {"seed": "0"} and parameters({}) == {}
    assert TrackedRun("none", "e", folder, "s", {}).roster is EMPTY_ROSTER == Roster()


def test_names_without_tables_are_no_models_or_conditions() -> None:
    """Sweeps of the first version stored names alone."""
    assert Roster.of({"models": ["a"], "conditions": ["hint"]}) == Roster.of({}) == Roster()


def test_models_and_conditions_have_the_order_of_the_file() -> None:
    roster = Roster(("uniform", "z", "guess", "a"), frozenset({"uniform", "guess"}), ("hint", "history", "zero-shot"))

    assert [roster.rank(name) for name in ("z", "a", "uniform", "guess", "unknown")] == [0, 1, 2, 3, 4]
    assert [roster.kind(name) for name in ("uniform", "z", "unknown")] == ["baseline", "model", "model"]
    assert roster.main_condition(["other", "history", "hint"]) == "hint"
    assert roster.main_condition(iter(["other", "history"])) == "history"
    assert roster.main_condition(["z", "y"]) == "y" and roster.main_condition(["z", "zero-shot"]) == "zero-shot"


def test_a_data_set_has_the_digest_of_all_its_samples_in_order() -> None:
    samples = {"ROD": {2: "c", 1: "b"}, "QD": {5: "a"}}
    described = describe_dataset("demo", "data/demo", samples)  # type: ignore[arg-type]

    assert described == {
        "name": "demo: QD, ROD",
        "digest": sha256(b"'a''b''c'").hexdigest()[:8],
        "source": {"uri": "data/demo"},
        "schema": {
            "mlflow_colspec": [
                {"name": name, "type": "string", "required": True}
                for name in ("scenario", "id", "prompt", "options", "categories", "answer")
            ]
        },
        "profile": {"samples": 3, "QD": 1, "ROD": 2},
    }
    assert list(described["profile"]) == ["samples", "QD", "ROD"]


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("none", tracker.NullTracker), ("sqlite", MlflowTracker), ("http://h:5000", MlflowTracker),
        ("databricks", MlflowTracker), ("nonesuch://h", MlflowTracker),
    ],
)  # fmt: skip
def test_the_scheme_of_an_address_names_its_tracker(uri: str, kind: type, tmp_path: Path) -> None:
    opened = tracker.open_tracker(TrackedRun(uri, "e", tmp_path, "s", {}))

    assert type(opened) is kind and opened.enabled is tracker.is_mlflow(uri) is (kind is MlflowTracker)


@pytest.mark.parametrize("uri", ["otlp://host:4318", "otlps://host"])
def test_an_address_of_opentelemetry_names_the_last_version_with_it(uri: str, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"left after 0\.2\.0.*MLflow"):
        tracker.open_tracker(TrackedRun(uri, "e", tmp_path, "s", {}))
