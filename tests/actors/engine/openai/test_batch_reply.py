"""Batches and lines of result files as a service writes them, with the bounds of every field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.engine.openai.batch_reply import ResultLine, parse_batch, parse_line
from actors.engine.openai.reply import UnreadableAnswer

BATCH: dict[str, Any] = {
    "id": "b1", "object": "batch", "status": "completed", "input_file_id": "f1", "output_file_id": "f2",
    "error_file_id": "f3", "errors": {"data": [{"code": "c", "message": "m"}, {"code": "d"}]},
    "metadata": {"run": "r", "model": "m"}, "created_at": 100, "completed_at": 160.5,
}  # fmt: skip


def test_a_batch_is_read_in_full() -> None:
    batch = parse_batch(BATCH)

    assert batch.model_dump(exclude={"errors"}) == {
        **{name: value for name, value in BATCH.items() if name not in ("object", "errors")},
        "failed_at": 0.0, "expired_at": 0.0, "cancelled_at": 0.0,
    }  # fmt: skip
    assert (batch.first_error.code, batch.first_error.message) == ("c", "m")
    least = parse_batch({"id": "b", "status": "s"})
    assert (least.first_error.code, least.first_error.message, least.metadata, least.seconds) == ("", "", {}, 0.0)
    assert (least.input_file_id, least.output_file_id, least.error_file_id, least.created_at) == ("", "", "", 0.0)


@pytest.mark.parametrize("end", ["completed_at", "failed_at", "expired_at", "cancelled_at"])
def test_a_batch_lasts_from_its_creation_to_whatever_ended_it(end: str) -> None:
    batch = {"id": "b", "status": "s", "created_at": 100}

    assert parse_batch({**batch, end: 160}).seconds == 60.0
    assert parse_batch({**batch, end: 90}).seconds == 0.0, "never negative"
    assert parse_batch({**batch, end: 100.5}).seconds == 0.5


@pytest.mark.parametrize(
    ("field", "longest"), [("id", "x" * 512), ("status", "x" * 512), ("input_file_id", "x" * 10_000)]
)
def test_texts_are_bounded(field: str, longest: str) -> None:
    assert getattr(parse_batch({**BATCH, field: longest}), field) == longest
    longer = {**BATCH, field: f"{longest}x"}
    if field == "input_file_id":
        assert parse_batch(longer).input_file_id == ""
        return
    for fields in (longer, {**BATCH, field: ""}):
        with pytest.raises(UnreadableAnswer, match=f"^{field}: String should have at"):
            parse_batch(fields)


def test_metadata_and_times_are_kept_up_to_the_bounds() -> None:
    most = {f"{number:064}": "v" * 512 for number in range(16)}
    batch = parse_batch({**BATCH, "metadata": most})
    assert batch.metadata == most and batch.carries(most) and batch.carries({}) and not batch.carries({"run": "r"})
    assert parse_batch(BATCH).carries({"run": "r"}) and not parse_batch(BATCH).carries({"run": "other"})
    times = {value: parse_batch({**BATCH, "created_at": value}).created_at for value in (0, 1e12 - 1, 1e12, -1, 1e-9)}
    assert times == {0: 0.0, 1e12 - 1: 1e12 - 1, 1e12: 0.0, -1: 0.0, 1e-9: 1e-9}
    assert parse_batch({**BATCH, "created_at": "100"}).created_at == 0.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2.5", 2.5),
        ("0", 0.0),
        ("999999999999", 999_999_999_999.0),
        ("1e12", 0.0),
        ("-1", 0.0),
        ("nan", 0.0),
        ("x", 0.0),
    ],
)
def test_a_number_of_the_metadata_is_within_bounds_or_zero(text: str, number: float) -> None:
    batch = parse_batch({**BATCH, "metadata": {"ceiling": text}})

    assert batch.number("ceiling") == number and batch.number("requests") == 0.0


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, ResultLine("a", 0, {}, "", "", 9.0)),
        ({"response": {"status_code": 200, "body": {"x": 1}}, "error": None}, ResultLine("a", 200, {"x": 1}, "", "", 9.0)),
        ({"response": {"body": {"x": 1}}}, ResultLine("a", 0, {"x": 1}, "", "", 9.0)),
        ({"error": {"code": "c", "message": "m"}}, ResultLine("a", 0, {}, "c", "m", 9.0)),
        ({"error": {"code": "c"}}, ResultLine("a", 0, {}, "c", "", 9.0)),
        ({"response": {"status_code": 429, "body": {"error": {"code": "c", "message": "m"}}}},
         ResultLine("a", 429, {"error": {"code": "c", "message": "m"}}, "c", "m", 9.0)),
        ({"response": {"status_code": 429, "body": {"error": {"code": "c"}}}, "error": {"code": "own"}},
         ResultLine("a", 429, {"error": {"code": "c"}}, "own", "", 9.0)),
        ({"error": {"code": "x" * 10_000, "message": "x" * 10_001}}, ResultLine("a", 0, {}, "x" * 10_000, "", 9.0)),
    ],
)  # fmt: skip
def test_a_line_has_a_body_or_an_error(fields: dict[str, Any], line: ResultLine) -> None:
    assert parse_line(json.dumps({"custom_id": "a", **fields}).encode(), 9.0) == line


def test_lines_without_more_than_a_name_have_no_time() -> None:
    assert ResultLine("a") == parse_line(b'{"custom_id": "a"}') == ("a", 0, {}, "", "", 0.0)
