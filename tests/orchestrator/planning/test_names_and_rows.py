"""Which names make a folder's addresses the user's own, sentence by sentence, and the rows of a plan."""

import pytest

from envs.errors import RunFolderError
from orchestrator.planning.build_plan import (
    build_plan,
    cells_with_progress,
    planned_cells,
    planned_rows,
    stored_episodes,
)
from orchestrator.planning.named_by_user import check_named
from sweeps.spec import ModelSpec
from tests.orchestrator.report import runs


def entry(**fields) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "evil/model", **fields})


def refusal(folder, sweep, models, **named) -> str:
    """Return what is not named; empty if everything is."""
    try:
        check_named(folder, sweep, models, **named)
    except RunFolderError as problem:
        return str(problem).partition(" names ")[2].partition(", which you have not named")[0]
    return ""


@pytest.fixture
def played(demo_data):
    return runs.sweep(demo_data, ["oracle"])


def service(address="", key="OPENAI_API_KEY"):
    return entry(backend="openai", endpoint={"base_url": address, "key_env": key})


@pytest.mark.parametrize(
    ("address", "key", "typed", "refused"),
    [
        ("http://127.0.0.1:8000/v1", "", (), ""),
        ("http://localhost", "OPENAI_API_KEY", (), ""),
        ("https://[::1]:80/v1", "", (), ""),
        ("http://127.0.0.1:123456/v1", "", (), "the service http://127.0.0.1:123456/v1"),
        ("http://localhost:8000/v1", "TOKEN", (), "the service http://localhost:8000/v1 (key in TOKEN)"),
        ("http://localhost:8000/v1", "TOKEN", ("model.endpoint.key_env=TOKEN",), ""),
        ("", "TOKEN", (), "the service of OpenAI (key in TOKEN)"),
        ("", "", (), ""),
        ("https://e.example", "", (), "the service https://e.example"),
        ("https://e.example", "", ("model.endpoint.base_url=https://e.example",), ""),
        (
            "https://e.example", "TOKEN", ("model.endpoint.base_url=https://e.example",),
            "the service https://e.example (key in TOKEN)",
        ),
        ("https://e.example", "", ("model.endpoint.base_url=https://e.example/x",), "the service https://e.example"),
    ],
)  # fmt: skip
def test_a_service_gets_a_key_only_where_both_are_named(played, tmp_path, monkeypatch, address, key, typed, refused):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert refusal(tmp_path, played, [service(address, key)], typed=typed) == refused


def test_weights_are_named_by_their_source_and_code_by_all_that_chooses_it(played, tmp_path):
    weights = entry(backend="vllm")
    assert refusal(tmp_path, played, [weights]) == "the weights evil/model"
    assert refusal(tmp_path, played, [weights], typed=["model.source=evil/model"]) == ""
    assert refusal(tmp_path, played, [weights], typed=["model.source=evil/other"]) == "the weights evil/model"
    code = entry(backend="vllm", trust_remote_code=True)
    own = played.model_copy(update={"models": (weights,)})
    assert refusal(tmp_path, played, [weights], own=own) == ""
    assert refusal(tmp_path, played, [code], own=own) == "the code or unsafe options of m"
    assert refusal(tmp_path, played, [code], typed=["model.trust_remote_code=true"]) == ""
    assert refusal(tmp_path, played, [code], typed=["model.trust_remote_code=1"]) == "the code or unsafe options of m"
    own = played.model_copy(update={"models": (code.model_copy(update={"revision": "1" * 40}),)})
    assert refusal(tmp_path, played, [code], own=own) == "the code or unsafe options of m"
    assert refusal(tmp_path, played, [code], own=played.model_copy(update={"models": (code,)})) == ""


def test_rows_of_a_plan_count_up_to_the_stops_and_those_of_the_full_set(demo_data, tmp_path):
    spec = runs.sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["QD", "ROD"])
    plan = build_plan(spec)
    names = {"model": "oracle", "condition": "zero-shot", "protocol": "mcqa", "planned": 10}
    assert planned_cells(plan) == [
        {"cell": f"oracle/{scenario}/zero-shot", "scenario": scenario, **names} for scenario in ("QD", "ROD")
    ]
    ruled = build_plan(
        runs.sweep(demo_data, ["oracle"], ["zero-shot"], scenarios=["QD", "ROD"], precision={"half_width": 9})
    )
    stopped = ruled.with_stops({1: 4})
    assert [(row["planned"], row["full"]) for row in planned_cells(stopped)] == [(10, 10), (4, 10)]
    assert (
        planned_rows(stopped).to_dicts() == planned_cells(stopped)
        and stopped.total_with_stops == 14 < stopped.total == 20
    )
    assert len(stored_episodes(plan, runs.play_sweep(tmp_path, spec, only=7)).collect()) == 7
    assert sum(row["done"] for row in cells_with_progress(plan, tmp_path)) == 7
    assert stored_episodes(plan, tmp_path, "another").collect().height == 0
