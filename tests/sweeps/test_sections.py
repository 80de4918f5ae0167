"""Tables of a sweep file: which cells exist, which ids are played, and how wordings read."""

import json
from hashlib import sha256

import pytest

from envs.stimulus import PROMPTS
from sweeps.conditions import CONDITIONS, SHIPPED_WORDINGS, VARIANTS, Condition, shipped_wording
from sweeps.load import SweepError, build
from sweeps.model import ModelSpec
from sweeps.protocol import unplayable_reason
from sweeps.spec import Protocol


def entry(**fields):
    return ModelSpec(**{"name": "m", "source": "org/m", **fields})


# -- cells -------------------------------------------------------------------------------------------------------------
HISTORY, BLIND, SYSTEM = CONDITIONS["history"], VARIANTS["text-only"], Condition(name="system", system="Be brief.")


@pytest.mark.parametrize(
    ("fields", "scenario", "condition", "protocol", "reason"),
    [
        ({}, "ROD", CONDITIONS["hint"], Protocol.MCQA, ""),
        ({}, "mine", CONDITIONS["hint"], Protocol.OEG, ""),
        ({}, "mine", CONDITIONS["hint"], Protocol.OEG_MULTI,
         "mine has no rules by which answers of several turns are judged"),
        ({}, "QD", CONDITIONS["icl-1"], Protocol.MCQA, "icl-1 exists only for ROD, MVP-N"),
        ({"max_images": 1}, "ROD", HISTORY, Protocol.MCQA, "m takes one picture a prompt, but history needs several"),
        ({"max_images": 2}, "ROD", HISTORY, Protocol.MCQA, ""),
        ({"max_images": 1}, "ROD", CONDITIONS["icl-1"], Protocol.MCQA, "m takes one picture a prompt, but icl-1 needs several"),
        ({"limits": ["no pictures"]}, "ROD", BLIND, Protocol.MCQA, ""),
        ({"limits": ["no pictures"]}, "ROD", HISTORY, Protocol.MCQA, "m reads text only, but history shows pictures"),
        *(({"limits": ["no chat template"]}, "ROD", condition, Protocol.MCQA,
           f"m has no chat template and takes one question with one picture, but {condition.name} asks in another form")
          for condition in (HISTORY, BLIND, SYSTEM, CONDITIONS["icl-1"])),
        ({"limits": ["no chat template"]}, "ROD", CONDITIONS["hint"], Protocol.MCQA, ""),
        ({"limits": ["no functions"]}, "ROD", CONDITIONS["hint"], Protocol.MCQA, ""),
        ({"limits": ["no functions"]}, "ROD", CONDITIONS["hint"], Protocol.TOOLS,
         'the chat template of m shows no functions; write tools = "text" in its entry'),
        ({"backend": "human"}, "ROD", CONDITIONS["hint"], Protocol.TOOLS, "a person chooses options and calls no functions"),
    ],
)  # fmt: skip
def test_a_cell_exists_or_says_why_not(fields, scenario, condition, protocol, reason):
    assert unplayable_reason(entry(**fields), scenario, condition, (), protocol) == reason


# -- ids ---------------------------------------------------------------------------------------------------------------
TABLE = {"data": "d", "models": ["oracle"], "scenarios": ["QD", "ROD"]}


def select(**selection):
    return build({**TABLE, "selection": selection}, "x.toml").selection


def test_an_ids_file_names_samples_of_each_scenario(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.json").write_text(json.dumps({"QuickDraw": [3], "ROD": [0, 4], "CIT": [1]}))
    chosen = select(ids_file="ids.json")

    assert chosen.ids == {"QD": [3], "ROD": [0, 4]} or dict(chosen.ids) == {"QD": (3,), "ROD": (0, 4)}
    assert not chosen.filtered and select(ids_file="ids.json", filtered=True).filtered
    assert select(ids={"QuickDraw": [1], "ROD": [2]}).filtered


@pytest.mark.parametrize(
    ("selection", "content", "reason"),
    [
        ({"ids_file": "ids.json"}, None, "there is no file ids.json"),
        ({"ids_file": "ids.json"}, "{", "must be JSON"),
        ({"ids_file": "ids.json"}, '{"ROD": [true]}', "lists of whole numbers by scenario"),
        ({"ids_file": "ids.json"}, '{"ROD": [1]}', "QD"),
        ({"ids_file": "ids.json", "ids": {"ROD": [1]}}, None, "keep one"),
        ({"ids": {"CIT": [1]}}, None, "CIT is not among the scenarios"),
        ({"ids": {"QD": [1], "QuickDraw": [2]}}, None, "names a scenario twice"),
    ],
)
def test_wrong_ids_are_a_sentence(selection, content, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "ids.json").write_text(content)
    with pytest.raises(SweepError) as error:
        select(**selection)
    assert reason in str(error.value)


# -- wordings ----------------------------------------------------------------------------------------------------------
def test_our_wordings_are_those_of_stored_replicates():
    """A replicate's key holds its wording, so another text is another experiment."""
    texts = json.dumps([shipped_wording(number) for number in range(1, SHIPPED_WORDINGS + 1)], sort_keys=True)

    assert SHIPPED_WORDINGS == 8 and sha256(texts.encode()).hexdigest()[:16] == "302059b5ddb8774a"
    template, hints = shipped_wording(1)
    assert template.startswith("{question} Select one of these options.\n{options}Reply with one option only")
    assert hints[PROMPTS["VSOD_HINT"]].startswith(
        "Tip: if there is an occlusion, waiting for it to disappear or rewind"
    )
