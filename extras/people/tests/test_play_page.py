"""The page is open to whoever has its address, counts an answer once, and shows nothing that a model does not get."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from sitting import Player, oracle_turns, person, sitting

from actors.text.printable import spell_invisible
from envs.scenario import suggestions
from orchestrator.storage.episode_store import episodes, turns

HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)> "&amp;" \u202egnp.exe\u200b {{ 7 * 7 }}'


@pytest.fixture(scope="module")
def visitor(demo_data, tmp_path_factory):
    """Somebody at the first question of seven."""
    with sitting(person(demo_data), tmp_path_factory.mktemp("page") / "run") as session:
        yield session.visitor()


@pytest.mark.parametrize(
    ("method", "path", "origin", "status"),
    [
        ("GET", "/answer", None, 404),
        ("GET", "{path}QuickDraw%2F1.png", None, 404),
        ("POST", "{path}answer", "http://evil.example", 403),
    ],
)
def test_forbidden_requests_are_refused(method, path, origin, status, visitor):
    body = "question=1&choice=0" if method == "POST" else None
    assert visitor.ask(method, path.format(path=visitor.path), {"Origin": origin} if origin else {}, body) == status
    assert len(visitor.bodies[-1]) < 40 and b"What" not in visitor.bodies[-1]
    assert "form-action 'self'" in visitor.headers["Content-Security-Policy"]
    assert visitor.look() and visitor.number == "1", "and nothing was answered"


@pytest.mark.parametrize(
    ("line", "headers", "body", "status"),
    [
        ("POST {path}answer", {}, b"question=a&choice=0", 400),
        ("POST {path}answer", {}, b"x" * 20_000, 413),
        ("POST {path}answer", {"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\nContent-Dis", 400),
        ("POST {path}answer", {"Content-Encoding": "gzip"}, b"\x1fgarbag", 400),
        ("POST {path}answer", {"Transfer-Encoding": "chunked"}, b"zz\r\n", 400),
        ("GET {path}%00%ff/../..", {}, b"", 404),
        ("\x16\x03\x01\x02 x", {}, b"", 400),
    ],
)
def test_garbage_is_refused_without_a_traceback(line, headers, body, status, visitor, caplog):
    length = {"Content-Length": str(len(body))} if "Transfer-Encoding" not in headers else {}
    sent = {"Origin": f"http://{visitor.host}", **length, **headers}

    assert visitor.raw_status(line.format(path=visitor.path), sent, body) == status
    if "Content-Encoding" in headers:
        assert visitor.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert not caplog.records and visitor.look() and visitor.number == "1"


@pytest.mark.parametrize(("question", "choice"), [(2, 0), (1, 99), (1, -1), (10**30, 0)])
def test_answer_to_no_question_is_reported(question, choice, visitor):
    assert visitor.post(question, choice) == 303
    assert "was answered already" in visitor.page and visitor.number == "1"


def test_two_tabs_make_one_answer(demo_data, tmp_path):
    spec = person(demo_data, limit=1, scenarios='["QD", "ROD"]')
    script = oracle_turns(spec)
    with sitting(spec, tmp_path / "run") as session:
        tabs = [session.visitor() for _ in range(6)]
        for _, reply in script:
            for tab in tabs:
                tab.look()
            number, choice = tabs[0].number, tabs[0].options.index(reply)
            with ThreadPoolExecutor(len(tabs)) as crowd:
                last = list(crowd.map(lambda tab: _survives(tab, number, choice), tabs))  # noqa: B023
            late = sum("was answered already" in tab.page for tab in tabs)
            ended = 200 in last or None in last  # after the last answer a late tab sees the end, or nobody any more
            assert late == len(tabs) - 1 or ended
    assert turns(tmp_path / "run").collect().height == len(script)
    assert episodes(tmp_path / "run").collect()["ending"].to_list() == ["correct"] * 2


def _survives(tab: Player, number: str, choice: int) -> int | None:
    try:
        return tab.post(number, choice)
    except OSError:
        return None


def twin(data, target):
    """Copy the benchmark with another right answer for every sample that the game allows one."""
    shutil.copytree(data, target)
    for file in target.glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            line["answer"] = next(name for name in line["categories"] if name != line["answer"])
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def sent_bodies(data, output) -> list[bytes]:
    """Return the pages that a benchmark's questions send, pictures included, each answered with the first option."""
    spec = person(data, "zero-shot,reference")
    with sitting(spec, output) as session:
        visitor = session.visitor()
        while "<form" in visitor.page:
            visitor.post(visitor.number, 0)
    token = visitor.path.encode()
    return [body.replace(token, b"/") for body in visitor.bodies]


def test_what_is_sent_does_not_depend_on_the_answer(demo_data, tmp_path):
    first, second = (
        sent_bodies(demo_data, tmp_path / "one"),
        sent_bodies(twin(demo_data, tmp_path / "data"), tmp_path / "other"),
    )
    assert first == second and len(first) > 2 * 7 * 2


def test_texts_of_data_are_text(demo_data, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(demo_data, folder)
    file = next(folder.glob("QuickDraw*.jsonl"))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["prompt"] = HOSTILE
        line["categories"] = [
            HOSTILE + str(n) if name != line["answer"] else name for n, name in enumerate(line["categories"])
        ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with sitting(person(folder, scenarios='["QD"]'), tmp_path / "run") as session:
        visitor = session.visitor()
        assert visitor.texts[0].startswith(spell_invisible(HOSTILE)) and "⟨U+202E⟩gnp" in visitor.texts[0]
        chosen = next(n for n, text in enumerate(visitor.options) if text.startswith(spell_invisible(HOSTILE)))
        assert visitor.page.count("<script>") == 1 and "<img src=x" not in visitor.page and "49" not in visitor.texts[0]
        visitor.post(visitor.number, chosen)
    replies = turns(tmp_path / "run").collect()["reply"].to_list()
    assert replies and replies[0].startswith(HOSTILE), "the reply is the option as it is"


def test_a_picture_that_cannot_be_shown_ends_its_episode(demo_data, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(demo_data, folder)
    for path in (folder / "QuickDraw").rglob("*.png"):
        path.write_bytes(b"no picture")
    with sitting(person(folder, scenarios='["QD", "ROD"]'), tmp_path / "run") as session:
        visitor = session.visitor()
        visitor.say(next(text for text in visitor.options if text not in suggestions(tuple(visitor.options))))
    stored = episodes(tmp_path / "run").collect()
    assert dict(stored.select("scenario", "ending").rows()) == {"QD": "unprocessable", "ROD": "wrong"}
