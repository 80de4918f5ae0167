"""One batch at a real service, step by step: what is sent, the lines of the log, and what is read and deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BackendDied, ModelStopped
from actors.engine.openai import run_batches
from actors.engine.openai.batch_backend import OpenAIBatchBackend
from actors.engine.openai.batch_file import BatchFile, request_line
from actors.engine.openai.batch_reply import ResultLine, ServiceBatch
from actors.engine.openai.run_batches import FIRST_POLL_S, LAST_POLL_S, FileTooLarge
from envs.tool_calls import Function
from sweeps.spec import ModelSpec
from tests.actors.asking import make_request, user
from tests.actors.batch_service import BatchService, batch_service


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_batches, "FIRST_POLL_S", 0.01)
    monkeypatch.setattr(run_batches, "LAST_POLL_S", 0.01)


def engine(service: BatchService, folder: Path, run: str = "r" * 24, **prices: float) -> OpenAIBatchBackend:
    endpoint = {"base_url": service.url, "key_env": "", "patience": 0.0, **prices}
    backend = OpenAIBatchBackend(
        ModelSpec(name="m", source="gpt-4.1", backend="openai", batch=True, endpoint=endpoint), folder
    )
    backend.join_run(run, None)
    return backend


def use_engine(folder: Path, use: Callable[..., Awaitable[Any]], problem: str = "", **prices: float) -> Any:
    """Return what ``use`` returns for an engine and its service; both are closed afterwards."""

    async def run(service: BatchService) -> Any:
        backend = engine(service, folder, **prices)
        try:
            return await use(backend, service)
        finally:
            await backend.close()

    with batch_service(problem=problem) as service:
        return asyncio.run(run(service))


def requests(count: int) -> BatchFile:
    file = BatchFile()
    for number in range(count):
        file.add(f"request-{number}", request_line(f"request-{number}", {"messages": ["x" * 60_000]}), 0.25)
    return file


def test_a_batch_is_sent_awaited_read_and_its_input_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def run(service: BatchService) -> None:
        backend, file = engine(service, tmp_path), requests(2)
        batches = backend.batches
        assert await batches.list_earlier() == []
        sent = await batches.submit(file)
        assert sent.metadata == {
            "proactive-sweep-run": "r" * 24, "model": "m", "ceiling": "0.5", "requests": "2", "sha256": file.digest,
        }  # fmt: skip
        assert [batch.id for batch in await batches.list_earlier()] == ["batch_0"] and len(service.files) == 1
        ended = await batches.finish(sent, 2)
        lines = await batches.read_lines(ended)
        assert lines is not None and sorted((line.id, line.status, line.seconds) for line in lines) == [
            ("request-0", 200, 3600.0), ("request-1", 200, 3600.0),
        ]  # fmt: skip
        await batches.delete_input(ended)
        assert sent.input_file_id not in service.files
        await batches.delete_input(ended)
        service.files.clear()
        assert await batches.read_lines(ended) is None
        other = engine(service, tmp_path, "another run")
        assert await other.batches.list_earlier() == []
        for each in (backend, other):
            await each.close()
        file.close()

    with batch_service() as service:
        asyncio.run(run(service))
    output = capsys.readouterr().out.splitlines()
    name = next(iter(service.batches.values()))["input_file_id"]
    assert output[:2] == ["m: batch batch_0 is sent: 2 requests, 0.1 MB", "m: batch batch_0 is completed"]
    assert output[2].startswith(f"m: input file {name} stays at the service: m: HTTP 404")
    assert output[3:] == ["m: the service no longer has file file-output-0 of batch batch_0"]


@pytest.mark.parametrize(
    ("count", "code", "error"),
    [
        (2, "token_limit_exceeded", FileTooLarge),
        (1, "token_limit_exceeded", ModelStopped),
        (2, "invalid_json_line", ModelStopped),
    ],
)
def test_a_refused_batch_is_halved_only_if_it_does_not_fit(
    tmp_path: Path, count: int, code: str, error: type[Exception]
) -> None:
    async def send(backend: OpenAIBatchBackend, service: BatchService) -> None:
        file = requests(count)
        sent = await backend.batches.submit(file)
        assert (await backend.batches.finish(sent)).status == "failed", "an earlier batch may have failed"
        with pytest.raises(error) as problem:
            await backend.batches.finish(sent, count)
        assert str(problem.value) == f"m: the service refused a batch of {count} requests: {code}: no \\x1b[31mroom"
        assert sent.input_file_id not in service.files
        file.close()

    use_engine(tmp_path, send, problem=code)


@pytest.mark.parametrize(
    ("status", "lines", "cost"),
    [
        ("completed", None, 6.0),
        ("expired", None, 0.0),
        ("completed", [(200, {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 500_000}})], 4.0),
        ("completed", [(200, {"usage": {"prompt_tokens": "many", "completion_tokens": 0}})], 2.0),
        ("expired", [(0, {}), (429, {})], 0.0),
    ],
    ids=["files deleted", "deleted and never ended", "counted", "invalid counts", "nothing answered"],
)
def test_an_earlier_batch_costs_what_its_lines_say_or_the_most_that_it_may(
    tmp_path: Path, status: str, lines: list[tuple[int, dict[str, Any]]] | None, cost: float
) -> None:
    """A batch of three requests for at most 6; a million tokens cost 2 in a prompt and 4 in a reply."""

    async def count(backend: OpenAIBatchBackend, service: BatchService) -> float:
        batch = ServiceBatch(id="b", status=status, metadata={"ceiling": "6.0", "requests": "3"})
        answers = None if lines is None else [ResultLine(f"r{code}", code, body, "", "") for code, body in lines]
        return backend._batch_cost(batch, answers)

    assert use_engine(tmp_path, count, prompt_price=4.0, reply_price=8.0) == cost


def test_a_service_may_be_silent_about_a_sent_batch_for_a_day_and_two_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch may take 24 hours, so an outage meanwhile is waited for longer than for any single request."""
    clock = iter([1000.0, 1000.0, 1000.0 + 26 * 3600, 1000.0 + 26 * 3600 + 1])

    async def refuse(batch_id: str) -> ServiceBatch:
        tried.append(batch_id)
        raise OSError("no route")

    async def wait(backend: OpenAIBatchBackend, service: BatchService) -> None:
        monkeypatch.setattr(backend.batches.api, "retrieve", refuse)
        await backend.batches.finish(ServiceBatch(id="b", status="in_progress"))

    tried: list[str] = []
    monkeypatch.setattr(run_batches, "monotonic", lambda: next(clock))
    monkeypatch.setattr(run_batches, "backoff", lambda failures, chance: 0.0)
    with pytest.raises(BackendDied) as problem:
        use_engine(tmp_path, wait)
    assert str(problem.value) == "m: no answer for 93600 s; last error: OSError: no route"
    assert tried == ["b"] * 3


def test_a_batch_is_asked_for_more_and_more_rarely_up_to_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def rest(seconds: float) -> None:
        pauses.append(seconds)

    async def look(batch_id: str) -> ServiceBatch:
        return ServiceBatch(id=batch_id, status="completed" if len(pauses) == 13 else "in_progress")

    async def wait(backend: OpenAIBatchBackend, service: BatchService) -> None:
        monkeypatch.setattr(backend.batches.api, "retrieve", look)
        await backend.batches.finish(ServiceBatch(id="b", status="validating"))

    monkeypatch.setattr(run_batches, "FIRST_POLL_S", FIRST_POLL_S)
    monkeypatch.setattr(run_batches, "LAST_POLL_S", LAST_POLL_S)
    monkeypatch.setattr(run_batches, "asyncio", SimpleNamespace(sleep=rest))
    use_engine(tmp_path, wait)
    assert pauses[:4] == [1.0, 1.5, 2.25, 3.375] and pauses[10:] == [pytest.approx(57.665, abs=0.001), 60.0, 60.0]


def test_the_functions_that_a_request_offers_count_among_its_tokens(tmp_path: Path) -> None:
    """Their JSON, a byte per token at most; a message counts its bytes and sixteen more."""
    asked = make_request(user("What is ü?"), max_tokens=100)
    functions = (Function("wait", "Wait."),)

    async def render(backend: OpenAIBatchBackend, service: BatchService) -> tuple[float, float, int]:
        _, plain = await backend._render(asked)
        body, offered = await backend._render(replace(asked, tools=functions))
        return plain, offered, len(json.dumps(body["tools"]))

    plain, offered, length = use_engine(tmp_path, render, prompt_price=2e6, reply_price=0.0)
    assert plain == 16 + len("What is ü?".encode()) + len('""') and offered == plain - len('""') + length


def test_the_file_of_errors_is_read_if_that_of_answers_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def read(backend: OpenAIBatchBackend, service: BatchService) -> list[ResultLine] | None:
        failed = {"custom_id": "r1", "response": None, "error": {"code": "batch_expired", "message": "late"}}
        service.files["file-errors"] = json.dumps(failed).encode()
        batch = ServiceBatch(id="b", status="expired", output_file_id="file-gone", error_file_id="file-errors")
        return await backend.batches.read_lines(batch)

    lines = use_engine(tmp_path, read)
    assert lines is not None and [(line.id, line.status, line.code) for line in lines] == [("r1", 0, "batch_expired")]
    assert capsys.readouterr().out == "m: the service no longer has file file-gone of batch b\n"
