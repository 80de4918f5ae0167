"""A person as an engine: which answers count, which question follows, and what is resumed."""

import pytest

from actors.engine.registry import open_engine
from envs.samples import BadData
from proactive_people import play_command
from proactive_people.person import FILE, Unfinished
from sweeps.load import SweepError


@pytest.mark.parametrize("content", [b"", b"[]", b"torn", b'{"key": "a", "replies": [3]}', b"[" * 3000])
def test_a_damaged_note_restarts_the_episode(content, tmp_path):
    (tmp_path / FILE).write_bytes(content)
    resumed = Unfinished(tmp_path)
    resumed.open("a")
    assert resumed.next_reply() is None


def test_a_person_is_the_only_model_of_a_folder(tmp_path):
    sweep = play_command.personal_sweep(str(tmp_path), "Ann-1", {"scenarios": ["QD"]}, ["selection.limit=3"])

    (person,) = sweep.models
    assert (person.name, person.source, person.backend) == ("human-Ann-1", "human:Ann-1", "human")
    assert (sweep.output, sweep.scenarios, sweep.selection.limit) == ("outputs/play-Ann-1", ("QD",), 3)
    with pytest.raises(ValueError, match="human-Ann-1 is a person, who plays with `proactive-sweep play`"):
        open_engine(person, tmp_path)


def test_a_person_plays_a_sweep_file_without_its_models(tmp_path):
    (file := tmp_path / "s.toml").write_text(
        '# A test.\nname = "s"\ndata = "d"\nmodels = ["mine"]\nconditions = ["hint"]\noutput = "o"\nprotocol = ["oeg"]\n'
        '[judge]\nmodel = "rule-judge"\n[[model]]\nname = "mine"\nsource = "org/mine"\n'
    )
    assert play_command._table(str(file)) == {"name": "s", "data": "d", "conditions": ["hint"]}
    assert play_command.personal_sweep(str(file), "ann", {}, []).output == "outputs/play-ann"
    assert play_command._table("s3://bucket/data") == {"name": "play", "data": "s3://bucket/data"}
    with pytest.raises(BadData, match="data folder not/there not found"):
        play_command._table("not/there")


@pytest.mark.parametrize("name", ["a" * 61, "", "a/b"])
def test_a_persons_name_is_one_of_a_file(name, tmp_path):
    with pytest.raises(SweepError, match="must be letters, digits"):
        play_command.personal_sweep(str(tmp_path), name, {}, [])
