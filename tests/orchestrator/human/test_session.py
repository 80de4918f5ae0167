"""A person's run is any model's: the oracle's script, answered on the page, gives the oracle's rows."""

from __future__ import annotations

import json
from itertools import pairwise

import polars as pl
import pytest
from typer.testing import CliRunner

from envs.render import Renderer
from orchestrator.cli.main import app
from orchestrator.human.session import order
from orchestrator.merging.merge import merge
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.write import write_tables
from orchestrator.storage.episode_store import episodes, turns
from sweeps.load import SweepError
from tests.orchestrator.human.conftest import CONDITIONS
from tests.orchestrator.human.scripts import oracle_turns, texts
from tests.orchestrator.human.sitting import person, sitting
from tests.orchestrator.report.runs import played, sweep

OWN = ["key", "cell", "model", "seconds"]


def stored(folder) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Episodes and turns with everything but what names the model, or is of time."""
    told = (
        episodes(folder).collect().with_columns(pl.col("key").str.replace(r"^[^/]+/", "").str.head(-9).alias("place"))
    )
    said = turns(folder).join(told.lazy().select("key", "place"), on="key").collect()
    return told.drop(OWN).sort("place"), said.drop("key").sort("place", "turn")


def test_the_oracles_script_gives_the_oracles_rows(oracle_played, demo_data, tmp_path):
    other = played(tmp_path / "oracle", sweep(demo_data, ["oracle"], list(CONDITIONS), selection={"limit": 1}))

    mine, theirs = stored(oracle_played.output), stored(other)
    assert mine[0].height == 7 * 3 and set(mine[0]["ending"]) == {"correct"}
    assert mine[0].equals(theirs[0]) and mine[1].equals(theirs[1])
    assert mine[1].height == len(oracle_played.questions)
    assert oracle_played.outcome.exit_code == 0 and "All episodes are played" in oracle_played.last
    assert not (oracle_played.output / "unfinished.json").exists()


def test_it_is_asked_what_a_model_is_asked(oracle_played):
    for asked in oracle_played.questions:
        view = asked.request.situation.view
        assert asked.texts == texts(asked.request.messages), "prompts byte by byte, earlier turns of history included"
        assert tuple(asked.options) == view.options + view.categories
    assert any(len(asked.texts) > 1 for asked in oracle_played.questions)
    assert any("Hint:" in asked.texts[-1] for asked in oracle_played.questions)
    assert [asked.number for asked in oracle_played.questions] == list(
        map(str, range(1, len(oracle_played.questions) + 1))
    )


def test_conditions_follow_one_another_and_scenarios_are_mixed(demo_data):
    plan = build_plan(person(demo_data, ",".join(CONDITIONS), limit=10))
    every = order(plan, range(plan.total), "human-ada")
    met = [plan.cells[plan.task(one)[0]] for one in every]
    first = [cell.scenario for cell in met if cell.condition.name == "zero-shot"]

    assert sorted(every) == list(range(plan.total))
    assert [cell.condition.name for cell in met] == [name for name in CONDITIONS for _ in range(70)]
    assert len([1 for one, other in pairwise(first) if one != other]) > 40
    assert order(plan, every[5:], "human-ada") == every[5:], "what is left keeps its order"
    assert order(plan, every, "human-bob") != every


def test_commands_take_it_as_any_run(oracle_played, demo_data, tmp_path):
    output = oracle_played.output
    for arguments in (
        ["status", output],
        ["report", output, "--brief"],
        ["export", output, "--to", "csv", "--into", tmp_path / "c"],
    ):
        done = CliRunner().invoke(app, list(map(str, arguments)))
        assert done.exit_code == 0, done.output
    told = json.loads(CliRunner().invoke(app, ["status", str(output), "--json"]).output)
    assert {cell["state"] for cell in told["cells"]} == {"complete"}

    other = played(tmp_path / "run", sweep(demo_data, ["oracle", "guess"], list(CONDITIONS), selection={"limit": 1}))
    merge([other, output], tmp_path / "both")
    both = read_run(tmp_path / "both")
    assert set(both.rows["model"]) == {"human-ada", "oracle", "guess"} and both.baselines == {"oracle", "guess"}
    assert "human-ada" in (write_tables(both)[0]).read_text()


def test_pictures_are_the_models_without_what_files_tell(demo_data, tmp_path):
    wanted = person(demo_data, "history", limit=1)
    script, renderer = oracle_turns(wanted), Renderer(demo_data)
    with sitting(wanted, tmp_path / "run") as found:
        visitor = found.visitor()
        for request, reply in script[:12]:
            refs = list(dict.fromkeys(ref for message in request.messages for ref in message.images))
            assert len(set(visitor.sources)) == len(refs)
            content = visitor.picture()
            assert chunks(content) == {b"IHDR", b"IDAT", b"IEND"}
            assert pixels(content) == renderer.picture(request.messages[-1].images[0]).tobytes()
            visitor.say(reply)


def chunks(content: bytes) -> set[bytes]:
    found, at = set(), 8
    while at < len(content):
        found.add(content[at + 4 : at + 8])
        at += 12 + int.from_bytes(content[at : at + 4], "big")
    return found


def pixels(content: bytes) -> bytes:
    from io import BytesIO

    from PIL import Image

    return Image.open(BytesIO(content)).tobytes()


def test_stopped_in_an_episode_it_goes_on_at_the_same_question(demo_data, tmp_path, capfd):
    wanted = person(demo_data, "history", limit=1, scenarios='["QD", "MVP-N"]')
    script, output = oracle_turns(wanted), tmp_path / "run"
    for stop in (2, 3, len(script)):
        with sitting(wanted, output) as found:
            visitor = found.visitor()
            at = next(n for n, (request, _) in enumerate(script) if texts(request.messages) == visitor.texts)
            assert at == {2: 0, 3: 2, len(script): 3}[stop], "neither an answer nor a question twice"
            for _, reply in script[at:stop]:
                visitor.say(reply)
        assert (found.outcome.exit_code, found.outcome.interrupted) == (
            (0, False) if stop == len(script) else (130, True)
        )
    assert stored(output)[1]["reply"].len() == len(script)
    told = capfd.readouterr().err
    assert "stopped: 0 of 2 episodes and 2 answers of the next one are stored; rerun the command to resume" in told


def test_a_spoilt_note_of_the_episode_begins_it_anew(demo_data, tmp_path):
    wanted = person(demo_data, limit=1, scenarios='["QD"]')
    with sitting(wanted, tmp_path / "run") as found:
        visitor = found.visitor()
        first = visitor.picture()
        visitor.say(oracle_turns(wanted)[0][1])
    note = tmp_path / "run/unfinished.json"
    whole = note.read_bytes()
    another = whole.replace(b'"key": "', b'"key": "x')
    for content in (b"", b"[]", whole[:-3], whole.replace(b'"replies": [', b'"replies": [3, '), b"[" * 3000, another):
        note.write_bytes(content)
        with sitting(wanted, tmp_path / "run") as found:
            assert found.visitor().picture() == first, "the same prompt stands at every turn; the picture tells"
    assert episodes(tmp_path / "run").collect().is_empty()


def test_what_somebody_types_wrongly_is_a_sentence(oracle_played, demo_data, tmp_path):
    def told(*arguments: object) -> str:
        done = CliRunner().invoke(app, ["play", *map(str, arguments)])
        assert done.exit_code == 2
        return " ".join(done.output.split())

    assert "--as 'a b' must be letters, digits" in told(demo_data, "--as", "a b")
    assert "there is no condition 'hintt'; did you mean 'hint'?" in told(
        demo_data, "--as", "a", "--conditions", "hintt"
    )
    assert "data folder nowhere not found" in told("nowhere", "--as", "a")
    with sitting(person(demo_data), tmp_path / "run") as found:
        port = found.visitor().host.partition(":")[2]
        assert "is already open in this process" in told(
            demo_data, "--as", "ada", "--samples", 1, "--output", tmp_path / "run"
        )
        assert f"port {port} is not available" in told(
            demo_data, "--as", "a", "--output", tmp_path / "b", "--port", port
        )
    assert 'models was ["human-ada"], this sweep says ["human-bob"]' in told(
        demo_data, "--as", "bob", "--samples", 1, "--output", oracle_played.output
    )
    with pytest.raises(SweepError, match="unknown key 'sample'"):
        person(demo_data, sample="3")


def test_a_sweep_refuses_a_person_in_a_sentence(demo_data):
    from actors.engine.registry import open_engine

    (model,) = person(demo_data).models
    with pytest.raises(ValueError, match="human-ada is a person, who plays with `proactive-sweep play`"):
        open_engine(model, demo_data)
