"""The input file of a batch: within the service's limits, and halves that hold each request once."""

from actors.engine.openai import batch_file
from actors.engine.openai.batch_file import BatchFile, request_id, request_line


def test_a_file_counts_its_requests_bytes_and_money():
    """A range stands in for a line of so many bytes: only its length is read."""
    file = BatchFile()
    assert (file.size, file.ceiling, file.fits(range(300_000_000))) == (0, 0, True), "the service decides"
    file.add("a", b"one\n", 0.5)
    file.add("b", b"three\n", 0.25)

    assert (file.size, file.ceiling, file.ceilings) == (10, 0.75, {"a": 0.5, "b": 0.25})
    assert file.digest == "c9b0fb1fa00b3a5ce714c876c35bb18f21eed970d33d9093a3cbd7cf0c9db3dc"
    assert file.fits(range(200_000_000 - 10)) and not file.fits(range(200_000_000 - 9))
    file.close()
    assert file.file.closed


def test_a_file_has_so_many_requests_at_most(monkeypatch):
    assert batch_file.MAX_REQUESTS == 50_000
    monkeypatch.setattr(batch_file, "MAX_REQUESTS", 2)
    file = BatchFile()
    for name in "ab":
        assert file.fits(b"x")
        file.add(name, b"x", 0.0)
    assert not file.fits(b"x")


def test_halves_hold_each_request_once_in_order():
    file = BatchFile()
    for name in "abcde":
        file.add(name, f"{name}\n".encode(), 1.0)
    halves = list(file.halves())

    assert [list(half.ceilings) for half in halves] == [["a", "b"], ["c", "d", "e"]]
    for half in halves:
        half.file.seek(0)
    assert [half.file.read() for half in halves] == [b"a\nb\n", b"c\nd\ne\n"]
    assert [(half.size, half.ceiling) for half in halves] == [(4, 2.0), (6, 3.0)]


def test_a_request_is_named_by_key_and_content_alike_in_every_attempt():
    body = {"model": "m", "seed": 1}

    assert (
        request_id("key", body)
        == request_id("key", dict(reversed(body.items())))
        == "1ff0f8bd0b05915dc0996f103075dc9aa12983db"
    )
    assert len({request_id("key", body), request_id("yek", body), request_id("key", {**body, "seed": 2})}) == 3
    assert request_line("name", body) == (
        b'{"custom_id": "name", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "seed": 1}}\n'
    )
