"""A person as an engine: which answers count, which question follows, and what is resumed."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.render import Renderer
from envs.types import State
from orchestrator.human import session
from orchestrator.human.loopback import _is_worth_logging, _listen, page_headers
from orchestrator.human.person import NAME, OpenQuestion, Person, Unfinished
from orchestrator.human.session import PlayPage, _describe_stop, order
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.html.text import policy_hash
from sweeps.load import SweepError
from tests.orchestrator.human.sitting import person as personal_sweep


def test_an_answer_counts_once_and_only_for_an_option_of_the_open_question(tmp_path):
    async def check() -> None:
        person = Person(tmp_path, Unfinished(tmp_path))
        assert person.answer(1, 0) is False, "no question is open"
        answer = asyncio.get_running_loop().create_future()
        person.question = question = OpenQuestion(3, (), ("yes", "no"), {}, answer)
        for number, choice in ((2, 0), (4, 0), (3, -1), (3, 2)):
            assert person.answer(number, choice) is False and not answer.done()
        assert await person.question_after(2) is question
        assert person.answer(3, 1) is True and answer.result() == "no"
        assert person.answer(3, 0) is False and answer.result() == "no"
        await person.end()
        assert await person.question_after(0) is None
        await person.close()

    asyncio.run(check())


def test_replies_are_resumed_in_order_and_only_of_the_same_episode(tmp_path):
    first = Unfinished(tmp_path)
    assert first.next_reply() is None, "no episode is open"
    first.open("a")
    for reply in ("left", "right"):
        first.add(reply)
        assert first.next_reply() is None, "what was just stored is no reply to come"
    resumed = Unfinished(tmp_path)
    resumed.open("a")
    assert [resumed.next_reply() for _ in range(3)] == ["left", "right", None]
    resumed.open("b")
    assert resumed.next_reply() is None
    resumed.close()
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize(
    "content",
    [
        '{"key": "a", "replies": "left"}',
        '{"key": "a", "replies": ["left", 2]}',
        '{"key": "a"}',
        '["a"]',
        "",
        '{"key": "a"',
    ],
)
def test_a_damaged_file_resumes_nothing(tmp_path, content):
    (tmp_path / NAME).write_text(content)
    resumed = Unfinished(tmp_path)
    resumed.open("a")

    assert (resumed.next_reply(), resumed.replies) == (None, [])


def test_a_stop_says_how_much_is_stored(tmp_path):
    person = Person(tmp_path, Unfinished(tmp_path))
    page = PlayPage(person, done=1_000, total=2_000)
    person.unfinished.open("a")
    expected = "stopped: 1,000 of 2,000 episodes{} are stored; rerun the command to resume"

    assert _describe_stop(page, person) == expected.format("")
    person.unfinished.add("left")
    assert _describe_stop(page, person) == expected.format(" and 1 answer of the next one")
    person.unfinished.add("right")
    assert _describe_stop(page, person) == expected.format(" and 2 answers of the next one")
    asyncio.run(person.close())


def test_a_reply_is_the_chosen_text_with_the_time_that_it_took(tmp_path):
    view = SimpleNamespace(options=("left", "right"), categories=("cat",))
    request = SimpleNamespace(messages=(), situation=SimpleNamespace(view=view))

    async def check() -> None:
        person = Person(tmp_path, Unfinished(tmp_path))
        person.unfinished.open("a")
        for number, (choice, text) in enumerate(((2, "cat"), (0, "left")), 1):
            asked = asyncio.create_task(person.reply(request))
            question = await person.question_after(number - 1)
            assert (question.number, question.options, question.pictures) == (number, ("left", "right", "cat"), {})
            await asyncio.sleep(0.02)
            assert person.answer(number, choice)
            reply = await asked
            assert reply.text == text and 0.02 <= reply.seconds < 30
        assert person.unfinished.replies == ["cat", "left"] and not person.over
        resumed = Person(tmp_path, Unfinished(tmp_path))
        resumed.unfinished.open("a")
        stored = await resumed.reply(request)
        assert (stored.text, stored.seconds, resumed.question) == ("cat", 0.0, None), "what was said is not asked again"
        await person.close()
        await resumed.close()

    asyncio.run(check())


def test_a_page_runs_its_own_style_and_script_alone(tmp_path):
    policy = page_headers("p {}", "let a", "form-action 'self'")["Content-Security-Policy"]
    assert policy == (
        "default-src 'none'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
        f" style-src {policy_hash('p {}')}; script-src {policy_hash('let a')}"
    )
    pages = [PlayPage(Person(tmp_path, Unfinished(tmp_path)), 0, 1) for _ in range(2)]
    assert [len(page.token) for page in pages] == [32, 32], "192 random bits"
    assert pages[0].token != pages[1].token and pages[0].hosts == frozenset()


@pytest.mark.parametrize(
    ("problem", "reason"), [(OSError(98, "Address in use"), "Address in use"), (OSError("odd"), "odd")]
)
def test_a_taken_port_is_one_sentence(problem, reason):
    async def start():
        raise problem

    with pytest.raises(SweepError) as refused:
        asyncio.run(_listen(SimpleNamespace(start=start), 80))
    assert str(refused.value) == f"port 80 is not available ({reason}); type another --port, or leave it out"


def test_bytes_that_are_no_request_are_not_logged_and_bugs_are():
    def record(problem):
        found = None if problem is None else (type(problem), problem, None)
        return logging.LogRecord("x", logging.ERROR, "x.py", 1, "x", (), found)

    logged = [_is_worth_logging(record(problem)) for problem in (None, ValueError(), BadHttpMessage("x"))]
    assert logged == [True, True, False]


def test_a_sitting_keeps_its_order_in_later_versions(demo_data):
    plan = build_plan(personal_sweep(demo_data, "zero-shot,hint", limit=1))
    assert order(plan, range(plan.total), "human-ada") == [12, 8, 0, 10, 6, 4, 2, 13, 9, 1, 11, 7, 5, 3]


def test_a_file_of_replies_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    stored = Unfinished(tmp_path)
    stored.open("a")
    stored.add("left" * 1000)
    monkeypatch.setattr("orchestrator.human.person.MAX_BYTES", (tmp_path / NAME).stat().st_size - 1)
    resumed = Unfinished(tmp_path)
    resumed.open("a")
    assert resumed.next_reply() is None


def test_a_page_says_which_episode_is_asked_and_what_is_stored(tmp_path):
    page = PlayPage(Person(tmp_path, Unfinished(tmp_path)), done=3, total=7)
    question = OpenQuestion(2, (), ("left", "cat"), {}, None)
    asked, late = (page._render(question, is_late).text for is_late in (False, True))
    assert "<title>Episode 4 of 7</title>" in asked and 'Episode <b>4</b> of 7</p><progress max="7" value="3"' in asked
    assert (
        '<input type="hidden" name="question" value="2">' in asked and '<kbd>B</kbd><span class="option">cat' in asked
    )
    words = "That question was answered already, perhaps in another tab."
    assert words in late and words not in asked and words not in page._render(question).text
    stopped = page._render(None).text
    assert "<title>ProactiveBench</title>" in stopped and "<h1>Stopped</h1>" in stopped
    assert "<p>3 of 7 episodes are stored. Rerun the command to resume.</p>" in stopped
    page.done = 7
    assert "<h1>All episodes are played</h1>" in page._render(None).text
    assert page._render(None).headers["Content-Type"] == "text/html; charset=utf-8"


def test_a_picture_of_a_question_has_a_number_its_size_and_its_bytes(demo_data, tmp_path):
    plan = build_plan(personal_sweep(demo_data, "zero-shot", limit=1, scenarios='["QD"]'))
    sample = next(iter(plan.samples_by_id["QD"].values()))
    ref = SCENARIOS["QD"].view(sample, State(0)).image
    view = SimpleNamespace(options=("left",), categories=("cat",))
    request = SimpleNamespace(messages=(Message("user", "What?", (ref,)),), situation=SimpleNamespace(view=view))

    async def check() -> None:
        person = Person(demo_data, Unfinished(tmp_path))
        for number in (1, 2):
            question = await person._ask(request)
            (shown,) = question.pictures.values()
            assert (question.number, shown.number, list(person.pictures)) == (number, number, [number])
            picture = Renderer(demo_data).picture(ref)
            assert (shown.width, shown.height) == picture.size and person.pictures[number].startswith(b"\x89PNG")
            assert person.question is question and question.messages == request.messages
        await person.close()

    asyncio.run(check())


def test_a_sitting_takes_the_time_until_its_end(monkeypatch):
    async def play(attempt, port):
        await asyncio.sleep(0.02)
        attempt.port = port

    monkeypatch.setattr(session, "_sit", play)
    attempt = SimpleNamespace()
    session.sit(attempt, 8080)
    assert 0.02 <= attempt.seconds < 30 and attempt.port == 8080


def test_a_page_has_no_empty_lines(tmp_path):
    question = OpenQuestion(1, (Message("user", "What?", ()),), ("left", "cat"), {}, None)
    for late in (False, True):
        page = session._template().render(style="", script="", question=question, late=late, done=0, total=1)
        assert [line for line in page.splitlines() if line != line.strip() or not line] == []
    spelled = session._template().environment.filters["spelled"]
    assert spelled("a\n\tb\r\u200b") == "a\n\tb⟨U+000D⟩⟨U+200B⟩"


def test_a_person_releases_the_loader(tmp_path, monkeypatch):
    person, closed = Person(tmp_path, Unfinished(tmp_path)), []
    monkeypatch.setattr(person.loader, "close", lambda: closed.append(1))
    asyncio.run(person.close())
    assert closed == [1]
