"""A person's run is any model's: the oracle's script, answered on the page, gives the oracle's rows."""

from __future__ import annotations

import io
from itertools import pairwise

import polars as pl
from PIL import Image
from sitting import CONDITIONS, app, oracle_turns, person, sitting, texts
from typer.testing import CliRunner

from envs.render import Renderer
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage.episode_store import episodes, turns
from proactive_people.play_command import order
from tests.orchestrator.report.runs import play_sweep, sweep

OWN = ["key", "cell", "model", "seconds"]


def comparable_rows(folder) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return episodes and turns without the columns that name the model or measure time."""
    rows = (
        episodes(folder).collect().with_columns(pl.col("key").str.replace(r"^[^/]+/", "").str.head(-9).alias("place"))
    )
    turn_rows = turns(folder).join(rows.lazy().select("key", "place"), on="key").collect()
    return rows.drop(OWN).sort("place"), turn_rows.drop("key").sort("place", "turn")


def test_the_oracles_script_gives_the_oracles_rows(demo_data, tmp_path):
    """A person is asked what a model is asked, byte by byte, earlier turns included."""
    spec, output = person(demo_data, ",".join(CONDITIONS), limit=1, name="test"), tmp_path / "ada"
    script = oracle_turns(spec)
    with sitting(spec, output) as session:
        visitor = session.visitor()
        for request, reply in script:
            view = request.situation.view
            assert visitor.texts == texts(request.messages) and tuple(visitor.options) == view.options + view.categories
            visitor.say(reply)
    oracle_run = play_sweep(tmp_path / "oracle", sweep(demo_data, ["oracle"], list(CONDITIONS), selection={"limit": 1}))

    own, expected = comparable_rows(output), comparable_rows(oracle_run)
    assert own[0].height == 7 * 3 and set(own[0]["ending"]) == {"correct"} and own[1].height == len(script)
    assert own[0].equals(expected[0]) and own[1].equals(expected[1])
    assert session.outcome.exit_code == 0 and "All episodes are played" in visitor.page
    assert not (output / "unfinished.json").exists()
    other = CliRunner().invoke(
        app, list(map(str, ["play", demo_data, "--as", "bob", "--samples", 1, "--output", output]))
    )
    assert other.exit_code == 2 and 'models was ["human-ada"]' in other.output


def test_conditions_follow_one_another_and_scenarios_are_mixed(demo_data):
    plan = build_plan(person(demo_data, ",".join(CONDITIONS), limit=10))
    ordinals = order(plan, range(plan.total), "human-ada")
    cells = [plan.cells[plan.task(ordinal)[0]] for ordinal in ordinals]
    first = [cell.scenario for cell in cells if cell.condition.name == "zero-shot"]

    assert sorted(ordinals) == list(range(plan.total))
    assert [cell.condition.name for cell in cells] == [name for name in CONDITIONS for _ in range(70)]
    assert len([1 for a, b in pairwise(first) if a != b]) > 40
    assert order(plan, ordinals[5:], "human-ada") == ordinals[5:], "what is left keeps its order"
    assert order(plan, ordinals, "human-bob") != ordinals


def test_pictures_match_models_and_hold_no_metadata(demo_data, tmp_path):
    spec = person(demo_data, "history", limit=1)
    script, renderer = oracle_turns(spec), Renderer(demo_data)
    with sitting(spec, tmp_path / "run") as session:
        visitor = session.visitor()
        for request, reply in script[:12]:
            refs = list(dict.fromkeys(ref for message in request.messages for ref in message.images))
            assert len(set(visitor.sources)) == len(refs)
            content = visitor.picture()
            shown = Image.open(io.BytesIO(content))
            assert shown.tobytes() == renderer.picture(request.messages[-1].images[0]).tobytes() and not shown.info
            assert not any(kind in content for kind in (b"tEXt", b"iTXt", b"zTXt", b"eXIf"))
            visitor.say(reply)


def test_interrupted_episode_resumes_at_the_same_question(demo_data, tmp_path, capfd):
    spec = person(demo_data, "history", limit=1, scenarios='["QD", "MVP-N"]')
    script, output = oracle_turns(spec), tmp_path / "run"
    for stop in (2, 3, len(script)):
        with sitting(spec, output) as session:
            visitor = session.visitor()
            at = next(n for n, (request, _) in enumerate(script) if texts(request.messages) == visitor.texts)
            assert at == {2: 0, 3: 2, len(script): 3}[stop], "neither an answer nor a question twice"
            for _, reply in script[at:stop]:
                visitor.say(reply)
        assert session.outcome.exit_code == (0 if stop == len(script) else 130)
    assert comparable_rows(output)[1].height == len(script)
    assert "rerun the command to resume" in capfd.readouterr().err


def test_typing_mistakes_are_one_sentence(demo_data, tmp_path):
    def refusal_of(*arguments: object) -> str:
        done = CliRunner().invoke(app, ["play", *map(str, arguments)])
        assert done.exit_code == 2
        return " ".join(done.output.split())

    assert "--as 'a b' must be letters, digits" in refusal_of(demo_data, "--as", "a b")
    assert "there is no condition 'hintt'; did you mean 'hint'?" in refusal_of(
        demo_data, "--as", "a", "--conditions", "hintt"
    )
    with sitting(person(demo_data), tmp_path / "run") as session:
        port = session.visitor().host.partition(":")[2]
        assert "is in use by process" in refusal_of(
            demo_data, "--as", "ada", "--samples", 1, "--output", tmp_path / "run"
        )
        assert f"port {port} is not available" in refusal_of(
            demo_data, "--as", "a", "--output", tmp_path / "b", "--port", port
        )
