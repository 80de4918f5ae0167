"""A run folder remembers the weights of each model, and names the others that a resume would mix in."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.storage.loaded_weights import FILE, LoadedWeights
from sweeps.spec import ModelSpec
from tests.actors.engine.test_weights import COMMITS, cached

HUB = ModelSpec(name="m", source="org/name")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder that has loaded the first commit; the cache has the second one now."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    cached(tmp_path / "cache", COMMITS[1])
    folder = tmp_path / "run"
    folder.mkdir()
    assert LoadedWeights(folder).add(HUB, COMMITS[0]) == ""
    return folder


def test_later_workers_load_the_recorded_commit(run: Path) -> None:
    weights = LoadedWeights(run)

    assert weights.pin(HUB).revision == COMMITS[0]
    assert weights.pin(HUB.model_copy(update={"revision": COMMITS[1]})).revision == COMMITS[1]
    assert weights.pin(HUB.model_copy(update={"source": "org/other"})).revision == ""
    assert weights.add(HUB, COMMITS[0]) == weights.add(HUB, "") == ""


def test_a_worker_with_another_commit_is_refused(run: Path) -> None:
    reason = LoadedWeights(run).add(HUB, COMMITS[1])

    assert f"has revision {'2' * 12} on this machine; run the same command again" in reason
    assert LoadedWeights(run).models["m"]["weights"] == COMMITS[0]


def test_this_machine_must_have_the_recorded_commit(run: Path, tmp_path: Path) -> None:
    reason = LoadedWeights(run).mismatch(HUB)

    assert reason == (
        f"{run} was played with revision {'1' * 12} of m, but org/name has revision {'2' * 12} on this machine; "
        f"type `hf download org/name --revision {COMMITS[0]}`, or pass another --output"
    )
    (tmp_path / "cache/models--org--name/snapshots" / COMMITS[0]).mkdir()
    assert LoadedWeights(run).mismatch(HUB) == ""


def test_an_older_folder_and_a_damaged_record_hold_nobody_up(tmp_path: Path) -> None:
    assert LoadedWeights(tmp_path).mismatch(HUB) == ""
    (tmp_path / FILE).write_text('{"m": 1}')
    assert LoadedWeights(tmp_path).models == {}
    assert LoadedWeights(tmp_path).add(HUB, COMMITS[0]) == ""
    assert LoadedWeights(tmp_path).models["m"]["weights"] == COMMITS[0]


def test_runs_differ_only_where_both_have_loaded_the_model(run: Path, tmp_path: Path) -> None:
    own, other = LoadedWeights(run), LoadedWeights(tmp_path)
    assert not own.differs_from(other, HUB) and not other.differs_from(own, HUB)
    for commit, differs in ((COMMITS[0], False), (COMMITS[1], True)):
        other.models["m"] = {"source": "org/name", "revision": "", "weights": commit}
        assert own.differs_from(other, HUB) is other.differs_from(own, HUB) is differs
    assert not own.differs_from(other, HUB.model_copy(update={"revision": COMMITS[1]})), "of neither is this known"
