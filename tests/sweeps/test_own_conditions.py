"""``[[condition]]`` tables: what they change in a prompt and in a key, that they are played, and mistakes in sentences."""

import tomllib
from pathlib import Path

import pytest

from actors.playing.prompts import messages, question_message, turn_view
from envs import SCENARIOS
from envs.samples import load_samples
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage.run_folder import settings, stored_sweep, sweep_toml
from sweeps.conditions import CONDITIONS, Condition
from sweeps.load import SweepError, build
from tests.orchestrator.report import runs

OWN = """
[[condition]]
name = "polite"
description = "what does politeness do?"
hint_text = "Feel free to ask me to change the picture."
preface = "You are my eyes."

[[condition]]
name = "terse"
system = "Answer with one letter."
template = "Options:\\n{options}Question: {question}"
history = true
history_turns = 2
scenarios = ["QD", "ROD"]
"""


def sweep(data, text=OWN, **fields):
    names = {"scenarios": ["ROD", "QD"], "models": ["uniform"], **fields}
    return build({"data": str(data), **names, **tomllib.loads(text)}, "mine.toml")


@pytest.fixture(scope="module")
def own(demo_data):
    return {condition.name: condition for condition in sweep(demo_data).conditions}


def state(sample):
    return SCENARIOS[sample.scenario].initial(sample)


def test_hint_and_preface_stand_around_the_question(own, demo_data):
    sample = load_samples(demo_data, "ROD")[0]
    plain = turn_view(sample, state(sample), CONDITIONS["zero-shot"])
    view = turn_view(sample, state(sample), own["polite"])

    assert view.prompt == f"You are my eyes. {plain.prompt} Feel free to ask me to change the picture."
    assert (view.options, view.image) == (plain.options, plain.image)
    assert messages(sample, plain, CONDITIONS["zero-shot"]) == (question_message(plain),)


def test_system_template_and_kept_turns(own, demo_data):
    sample = load_samples(demo_data, "QD")[0]
    view = turn_view(sample, state(sample), own["terse"])
    conversation = messages(sample, view, own["terse"], [(view, f"reply {n}") for n in range(5)])

    assert [message.role for message in conversation] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert conversation[0].text == "Answer with one letter." and conversation[0].images == ()
    assert [conversation[2].text, conversation[4].text] == ["reply 3", "reply 4"]
    last = conversation[-1].text
    assert last.startswith("Options:\nA. ") and last.endswith(f"\nQuestion: {view.prompt}")
    assert all(len(message.images) == 1 for message in conversation if message.role == "user")


def test_only_fields_in_use_are_in_the_key(own):
    assert CONDITIONS["hint"].identity.keys() == {"hint", "history", "shots", "reasoned", "mode"}
    assert own["polite"].identity["hint_text"].startswith("Feel free") and "system" not in own["polite"].identity
    reworded = own["polite"].model_copy(update={"hint_text": "Ask!"})
    assert reworded.identity != own["polite"].identity


def test_they_are_played_stored_and_read_back(demo_data, tmp_path):
    spec = sweep(demo_data, selection={"limit": 2})
    folder = runs.play_sweep(tmp_path / "run", spec)
    stored = stored_sweep(folder)

    assert [c.name for c in spec.conditions] == ["polite", "terse"]
    assert stored.conditions == spec.conditions and "hint_text" in sweep_toml(spec)
    changed = sweep(demo_data, OWN.replace("my eyes", "your eyes"), selection={"limit": 2})
    assert settings(changed) != settings(stored), "a run goes on with the same texts alone"
    keys = [set(build_plan(candidate).all_keys()) for candidate in (spec, changed)]
    assert len(keys[0] & keys[1]) == len(keys[0]) // 2, "the other condition's episodes are the same"


def test_all_means_the_papers_and_ones_own(demo_data):
    names = [c.name for c in sweep(demo_data, conditions="all", models=["oracle"]).conditions]
    assert names == [*CONDITIONS, "polite", "terse"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('name = "hint"', "hint is the name of a condition that ships"),
        ('name = "a/b"', "name = 'a/b'"),
        ('name = "mine-order1"', "are for replicates"),
        ('name = "mine"\norder = 1', "are for replicates"),
        ('name = "mine"\nevery_frame = true\nhistory = true', "asks each picture afresh"),
        ('name = "mine"\nevery_state = true\nshuffled = true', "asks each state afresh"),
        ('name = "mine"\norders = 3', "orders and thoughts need every_state"),
        ('name = "mine"\nthoughts = 1', "orders and thoughts need every_state"),
        ('name = "mine"\nhint = true\nhint_text = "x"', "with hint_text, leave it out"),
        ('name = "mine"\nhistory_turns = 2', "needs history = true"),
        ('name = "mine"\nshots = -1', "greater than or equal to 0"),
        ('name = "mine"\nmode = "random-proactive"\nsource = "nope"', "'nope' is none of ROD"),
        ('name = "mine"\ntemplate = "{question} {option}"', "must hold {question} and {options} once each"),
        ('name = "mine"\nhint_txt = "x"', "did you mean 'hint_text'"),
        ('name = "mine"\nscenarios = ["RODD"]', "there is no scenario 'RODD'"),
        ('name = "mine"\n[[condition]]\nname = "mine"', "two [[condition]] tables have the name 'mine'"),
    ],
)
def test_mistakes_are_sentences(table, message, demo_data):
    with pytest.raises(SweepError) as error:
        sweep(demo_data, f"[[condition]]\n{table}\n")
    assert message in str(error.value) and str(error.value).startswith("mine.toml: ")


def test_the_page_shows_a_condition_that_loads_and_names_every_key(demo_data):
    page = (Path(__file__).parents[2] / "docs/own-sweep.md").read_text(encoding="utf-8")
    text = next(block for block in page.split("```toml\n")[1:] if "[[condition]]" in block).partition("```")[0]

    assert [c.name for c in sweep(demo_data, text).conditions] == ["hint", "polite"]
    table = page.partition("## A condition of your own")[2]
    fields = Condition.model_fields.keys() - {"name", "description", "order", "draw", "wording", "hint_wordings"}
    assert all(f"`{name}`" in table for name in fields)
