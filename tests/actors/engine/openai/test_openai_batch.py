"""The Batch API yields the same episodes, and each request is paid once, whatever is lost, late or refused."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from actors.engine.backend import BudgetSpent, ModelStopped
from actors.engine.openai import batch_backend, run_batches
from actors.engine.openai.batch_backend import OpenAIBatchBackend
from actors.engine.openai.batch_reply import parse_batch, parse_line
from actors.engine.openai.reply import UnreadableAnswer
from actors.engine.registry import open_engine
from orchestrator.storage.episode_store import episodes
from tests.actors.batch_service import batch_service
from tests.actors.service import completion, failure
from tests.orchestrator.report.runs import play_sweep, sweep

KEY = "sk-test-1c9f-not-a-real-key"
RUN = "5" * 24


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_TEST_KEY", KEY)
    monkeypatch.setattr(run_batches, "FIRST_POLL_S", 0.02)
    monkeypatch.setattr(run_batches, "LAST_POLL_S", 0.05)
    monkeypatch.setattr(batch_backend, "GATHER_S", 0.1)
    monkeypatch.setattr(run_batches, "backoff", lambda failures, chance: 0.01)


def batch_sweep(data, url: str, batch: bool = True, conditions=("zero-shot", "history"), **endpoint):
    entry = {"base_url": url, "key_env": "SWEEP_TEST_KEY", **endpoint}
    model = {"name": "m", "source": "gpt-4.1", "endpoint": entry, "batch": batch}
    return sweep(data, ["m"], list(conditions), scenarios=["ROD", "QD"], model=[model])


def backend(spec, data) -> OpenAIBatchBackend:
    engine = open_engine(spec.models[0], data)
    if spec.models[0].batch:
        engine.join_run(RUN, None)
    return engine


def play(folder, spec, data):
    """Play all pending episodes at once and return the stored ones."""
    engine = backend(spec, data)
    try:
        play_sweep(folder, spec, backends={"m": engine}, in_flight=10_000)
    finally:
        engine.pictures.close()
    return episodes(folder).sort("key").collect()


def test_batch_api_gives_same_results_and_pays_each_request_once(demo_data, tmp_path, capfd):
    def fault(call: int, path: str) -> str:
        return "500" if call % 5 == 0 else "lost" if call % 7 == 0 or (path == "POST /v1/batches" and call % 2) else ""

    with batch_service() as plain:
        rows = play(tmp_path / "plain", batch_sweep(demo_data, plain.url, batch=False), demo_data)
    with batch_service(fault=fault) as service:
        batched = play(tmp_path / "batch", batch_sweep(demo_data, service.url), demo_data)
        assert service.single == 0 and set(service.paid.values()) == {1}
        assert len(service.paid) == plain.single == rows["turns"].sum()
        assert service.sizes()[0] == rows.height and len(service.sizes()) == rows["turns"].max()
        assert service.sizes() == [int((rows["turns"] > turn).sum()) for turn in range(rows["turns"].max())]
        assert not any(batch["input_file_id"] in service.files for batch in service.batches.values())
        assert service.keys == {f"Bearer {KEY}"}

    assert (tmp_path / "batch/results.json").read_bytes() == (tmp_path / "plain/results.json").read_bytes()
    assert batched["key"].to_list() == rows["key"].to_list(), "batch is in no key"
    assert rows["turns"].max() > 2 and batched["ending"].to_list() == rows["ending"].to_list()
    output = "".join(capfd.readouterr())
    assert "is sent" in output and not any(KEY[start : start + 8] in output for start in range(len(KEY) - 7))


def test_worker_dying_with_batch_out_pays_nothing_twice(demo_data, tmp_path):
    with batch_service(hold=True) as service:
        spec = batch_sweep(demo_data, service.url)

        async def send_batch_and_cancel() -> None:
            engine = backend(spec, demo_data)
            asking_all = await _play_until_polled(spec, engine, service)
            asking_all.cancel()
            await asyncio.gather(asking_all, return_exceptions=True)
            await engine.close()

        asyncio.run(send_batch_and_cancel())
        assert len(service.batches) == 1 and not service.paid
        service.hold = False
        rows = play(tmp_path / "run", spec, demo_data)
        assert set(service.paid.values()) == {1} and len(service.paid) == rows["turns"].sum()
        assert len(service.batches) == rows["turns"].max(), "the batch that was out is no other one"

        again = play(tmp_path / "again", spec, demo_data)
        assert len(service.batches) == rows["turns"].max(), "what the service has answered is read, not asked"
    assert (tmp_path / "run/results.json").read_bytes() == (tmp_path / "again/results.json").read_bytes()
    assert again["cost"].to_list() == rows["cost"].to_list()


async def _play_until_polled(spec, engine, service) -> asyncio.Task[None]:
    """Start playing and return once the service was polled about the batch."""
    playing = asyncio.create_task(_play_until_cancelled(spec, engine))
    while not any(service.looks.values()):
        await asyncio.sleep(0.02)
    return playing


async def _play_until_cancelled(spec, engine) -> None:
    from actors.playing.episode_runner import EpisodeRunner
    from orchestrator.planning.build_plan import build_plan

    plan = build_plan(spec)
    ordinals = [ordinal for queue in plan.pending(set()).values() for ordinal in queue]
    async for _ in EpisodeRunner(plan, {"m": engine}, 10_000).play(ordinals):
        pass


def test_only_expired_requests_are_sent_again(demo_data, tmp_path):
    with batch_service() as plain:
        play(tmp_path / "plain", batch_sweep(demo_data, plain.url, batch=False), demo_data)
    with batch_service(expire=lambda number, name: number < 2 and int(name, 16) % 2 == 0) as service:
        rows = play(tmp_path / "run", batch_sweep(demo_data, service.url), demo_data)
        assert set(service.paid.values()) == {1} and len(service.paid) == rows["turns"].sum()
        assert service.batches["batch_0"]["status"] == "expired" and service.sizes()[1] > 0
    assert (tmp_path / "run/results.json").read_bytes() == (tmp_path / "plain/results.json").read_bytes()


def test_request_failing_in_every_batch_ends_only_its_episode(demo_data, tmp_path):
    tried = Counter()

    def answer(body):
        name = json.dumps(body)
        tried[name] += 1
        seed = body["seed"] % 7
        if seed == 0:
            return failure(500, "", "for this one alone")
        if seed == 1 and tried[name] < 3:
            return failure(429, "rate_limit_exceeded", "later")
        return failure(400, "content_filter", "no") if seed == 2 else completion("A")

    with batch_service(answer=answer) as service:
        rows = play(tmp_path / "run", batch_sweep(demo_data, service.url, conditions=["zero-shot"]), demo_data)
        assert set(service.paid.values()) == {1}
    seeds = {body: json.loads(body)["seed"] % 7 for body in tried}
    assert {tried[body] for body, seed in seeds.items() if seed in (0, 1)} == {3}
    assert {tried[body] for body, seed in seeds.items() if seed > 1} == {1}
    first = Counter(rows.filter(turns=0)["ending"])
    assert first["unprocessable"] and first["refused"] and set(first) == {"unprocessable", "refused"}
    assert "failed in 3 batches on this request alone" in rows.filter(ending="unprocessable")["error"][0]


def test_batches_never_exceed_max_cost(demo_data, tmp_path):
    prices = {"prompt_price": 200.0, "reply_price": 200.0}
    price = 110 * 100 / 1e6

    def run(limit: float, url: str) -> str:
        try:
            play(tmp_path / "run", batch_sweep(demo_data, url, max_cost=limit, **prices), demo_data)
        except BudgetSpent as spent:
            return str(spent)
        return ""

    with batch_service() as service:
        assert "of max_cost = 0.01 is spent" in run(0.01, service.url) and not service.batches
        message = run(0.3, service.url)
        assert "of max_cost = 0.3 is spent" in message and 0 < len(service.paid) * price <= 0.3
        first = len(service.paid)
        assert "of max_cost = 0.3 is spent" in run(0.3, service.url), "what was spent is read from the service"
        assert len(service.paid) * price <= 0.3
        assert not run(1000.0, service.url)
        rows = episodes(tmp_path / "run").collect()
        assert set(service.paid.values()) == {1} and first < len(service.paid) == rows["turns"].sum()
    assert rows["cost"].sum() == pytest.approx(len(service.paid) * price), "half of the listed price"


@pytest.mark.parametrize("behaviour", [{"limit": 200_000}, {"queue": 7}])
def test_oversized_batches_are_split_in_half(demo_data, tmp_path, behaviour):
    with batch_service(**behaviour) as service:
        rows = play(tmp_path / "run", batch_sweep(demo_data, service.url), demo_data)
        done = [batch for batch in service.batches.values() if batch["status"] == "completed"]
        assert len(done) > rows["turns"].max()
        assert set(service.paid.values()) == {1} and len(service.paid) == rows["turns"].sum()


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (
            {"problem": "invalid_json_line"},
            r"m: the service refused a batch of \d+ requests: invalid_json_line: no .*room$",
        ),
        ({"metadata": False}, "m: the service keeps no metadata of batches"),
        ({"answer": lambda body: failure(401, "", KEY)}, "m: HTTP 401: the service refuses the key in SWEEP_TEST_KEY$"),
        ({"fault": lambda call, path: "404"}, "no"),
    ],
)
def test_permanent_error_stops_model_with_one_sentence(demo_data, tmp_path, behaviour, words):
    if "fault" in behaviour:
        behaviour, words = {}, "m: HTTP 404"
    with batch_service(**behaviour) as service, pytest.raises(ModelStopped, match=words) as stop:
        play(tmp_path / "run", batch_sweep(demo_data, service.url if behaviour else f"{service.url}/x"), demo_data)
    assert "\n" not in str(stop.value) and "\x1b" not in str(stop.value)
    if not service.metadata:
        assert [batch["status"] for batch in service.batches.values()] == ["cancelled"]


def test_cancelled_batch_stops_model_and_next_run_sends_rest(demo_data, tmp_path):
    with batch_service(hold=True) as service:
        spec = batch_sweep(demo_data, service.url)

        async def run() -> None:
            engine = backend(spec, demo_data)
            waiting = await _play_until_polled(spec, engine, service)
            service.batches["batch_0"]["status"] = "cancelled"
            with pytest.raises(
                ModelStopped, match=r"batch_0 was cancelled at the service with .* run again to send those"
            ):
                await waiting
            await engine.close()

        asyncio.run(run())
        service.hold = False
        rows = play(tmp_path / "run", spec, demo_data)
        assert len(service.paid) == rows["turns"].sum()


def test_equal_requests_of_two_episodes_are_both_sent(demo_data, tmp_path):
    """Zero-shot and history send the same first request; each gets its own answer."""
    with batch_service() as service:
        rows = play(tmp_path / "run", batch_sweep(demo_data, service.url), demo_data)
    assert service.sizes()[0] == rows.height == 2 * rows["sample_id"].len() // 2
    assert Counter(rows["condition"]).total() == rows.height and service.paid.total() == rows["turns"].sum()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"17", b'{"custom_id": 3}', b"[" * 200_000, b'{"custom_id": "\xff"}']
)
def test_an_odd_line_is_no_line(content):
    with pytest.raises(ValueError):
        parse_line(content)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response": None, "error": {"code": "batch_expired", "message": "m"}}, (0, {}, "batch_expired", "m")),
        ({"response": {"status_code": "200", "body": []}, "error": []}, (0, {}, "", "")),
        ({"response": {"status_code": 400, "body": {"error": {"code": 7, "message": "no"}}}}, (400, None, "", "no")),
        ({"response": {"status_code": float("nan")}}, (0, {}, "", "")),
    ],
)
def test_line_fields_are_type_checked(fields, expected):
    parsed = parse_line(json.dumps({"custom_id": "a", **fields}).encode())
    assert (parsed.status, parsed.code, parsed.message) == (expected[0], *expected[2:])
    assert expected[1] is None or parsed.body == expected[1]


def test_malformed_batch_is_unreadable_and_malformed_fields_are_empty():
    for fields in ({}, {"id": "b"}, {"id": 3, "status": "completed"}, {"id": "b", "status": None}):
        with pytest.raises(UnreadableAnswer):
            parse_batch(fields)
    odd = {
        "id": "b",
        "status": "failed",
        "metadata": [1],
        "errors": {"data": [7]},
        "created_at": True,
        "output_file_id": 5,
    }
    plain = parse_batch({"id": "b", "status": "failed"})
    assert parse_batch(odd).model_copy(update={"errors": plain.errors}) == plain
    assert parse_batch(odd).first_error == plain.first_error


@pytest.mark.parametrize(
    "metadata",
    [{"a" * 65: "b"}, {"a": "b" * 513}, {str(number): "" for number in range(17)}, {"a": [1]}],
    ids=["long name", "long value", "many pairs", "no text"],
)
def test_more_metadata_than_the_api_takes_is_not_kept(metadata):
    """A list of batches stays in memory, and a page of it may have 16 MiB."""
    fields = {"id": "b", "status": "failed", "errors": {"data": [{"code": "c", "more": "x" * 10**6}] * 9}}
    batch = parse_batch({**fields, "metadata": metadata})
    assert batch.metadata == {} and len(batch.model_dump_json()) < 500 and batch.first_error.code == "c"
