"""A person as an engine: which answers count, which question follows, and what is resumed."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from sitting import person as personal_sweep

from actors.engine.backend import Message
from envs import SCENARIOS
from envs.render import Renderer
from envs.samples import BadData
from envs.types import State
from orchestrator.planning.build_plan import build_plan
from proactive_people import play_command
from proactive_people.person import NAME, OpenQuestion, Person, Unfinished
from proactive_people.session import PlayPage, _describe_stop, order
from sweeps.load import SweepError


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


def test_a_sitting_keeps_its_order_in_later_versions(demo_data):
    plan = build_plan(personal_sweep(demo_data, "zero-shot,hint", limit=1))
    assert order(plan, range(plan.total), "human-ada") == [12, 8, 0, 10, 6, 4, 2, 13, 9, 1, 11, 7, 5, 3]


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


def test_a_person_releases_the_loader(tmp_path, monkeypatch):
    person, closed = Person(tmp_path, Unfinished(tmp_path)), []
    monkeypatch.setattr(person.loader, "close", lambda: closed.append(1))
    asyncio.run(person.close())
    assert closed == [1]


def test_a_person_is_the_only_model_of_a_folder(tmp_path: Path) -> None:
    keys = play_command._selection("ROD,QD", "all")
    assert keys == {"scenarios": ["ROD", "QD"], "conditions": "all"} and play_command._selection("", "") == {}
    sweep = play_command.personal_sweep(str(tmp_path), "Ann-1", {"scenarios": ["QD"]}, ["selection.limit=3"])

    (person,) = sweep.models
    assert (person.name, person.source, person.backend) == ("human-Ann-1", "human:Ann-1", "human")
    assert (sweep.name, sweep.data, sweep.output) == ("play", str(tmp_path), "outputs/play-Ann-1")
    assert (sweep.scenarios, sweep.selection.limit, sweep.tracking.uri) == (("QD",), 3, "none")
    assert [protocol.value for protocol in sweep.protocols] == ["mcqa"]
    assert play_command.personal_sweep(str(tmp_path), "a" * 60, {}, [], "there").output == "there"


def test_a_person_plays_a_sweep_file_without_its_models(tmp_path: Path) -> None:
    (file := tmp_path / "s.toml").write_text(
        '# A test.\nname = "s"\ndata = "d"\nmodels = ["mine"]\nconditions = ["hint"]\noutput = "o"\nprotocol = ["oeg"]\n'
        '[judge]\nmodel = "rule-judge"\n[[model]]\nname = "mine"\nsource = "org/mine"\n'
    )
    assert play_command._table(str(file)) == {"name": "s", "data": "d", "conditions": ["hint"]}
    assert play_command.personal_sweep(str(file), "ann", {}, []).output == "outputs/play-ann"
    assert play_command._table("s3://bucket/data") == {"name": "play", "data": "s3://bucket/data"}
    with pytest.raises(BadData, match="data folder not/there not found"):
        play_command._table("not/there")


@pytest.mark.parametrize("name", ["a" * 61, "", "a b", "a/b", "ü"])
def test_a_persons_name_is_one_of_a_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="must be letters, digits"):
        play_command.personal_sweep(str(tmp_path), name, {}, [])
