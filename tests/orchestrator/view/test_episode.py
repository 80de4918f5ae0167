"""One episode of the viewer: the kind of a wrong guess by the rules, pictures of several folders, and its verdicts."""

from types import SimpleNamespace

import polars as pl
import pytest

from orchestrator.report.measures.endings import EndingKind
from orchestrator.storage.schemas import VERDICTS
from orchestrator.storage.verdict_store import VerdictStore
from orchestrator.view import bundle, episode
from sweeps.conditions import CONDITIONS, Condition
from tests.envs.games import SAMPLES
from tests.orchestrator.blocks import turn

SAMPLE = SAMPLES["ROD"]


def kind_of(own, turns, condition="zero-shot", kind=EndingKind.GUESSED, sample=SAMPLE, scenario="ROD"):
    row = {"scenario": scenario, "condition": condition}
    return episode._kind(kind, own, sample, row, turns)


def test_a_wrong_guess_is_early_or_clear_by_the_rules(conditions):
    telling = [
        episode.SCENARIOS["ROD"].telling(SAMPLE, episode.SCENARIOS["ROD"].initial(SAMPLE)._replace(frame=frame, turn=1))
        for frame in range(10)
    ]
    assert {True, False} <= set(telling), "some pictures show the object and some do not"
    for frame, tells in enumerate(telling):
        turns = [turn("k", 0), turn("k", 1) | {"frame": frame, "turn": 1}]
        expected = {True: EndingKind.GUESSED_CLEAR, False: EndingKind.GUESSED_EARLY, None: EndingKind.GUESSED}[tells]
        assert kind_of(conditions, turns) == expected
        assert kind_of(conditions, turns, "blank") == EndingKind.GUESSED_EARLY, "its own picture was not shown"
        assert kind_of(conditions, turns, "random-proactive") == expected


def test_a_wrong_guess_counts_the_moves_before_it(conditions):
    sample, coco = SAMPLES["COCO"], episode.SCENARIOS["COCO"]
    kinds = []
    for count in range(8):
        turns = [turn("k", number) | {"frame": 0, "turn": number, "move": "zoom"} for number in range(count + 1)]
        state = coco.initial(sample)._replace(turn=count, across=count, along=count)
        kinds.append(kind_of(conditions, turns, sample=sample, scenario="COCO"))

        assert kinds[-1] == (EndingKind.GUESSED_CLEAR if coco.telling(sample, state) else EndingKind.GUESSED_EARLY), (
            count
        )
    assert set(kinds) == {EndingKind.GUESSED_CLEAR, EndingKind.GUESSED_EARLY}


def test_other_kinds_and_unknown_views_stay(conditions):
    turns = [turn("k", 0)]

    assert kind_of(conditions, turns, kind=EndingKind.GAVE_UP) == EndingKind.GAVE_UP
    assert kind_of(conditions, turns, sample=None) == EndingKind.GUESSED
    assert kind_of(conditions, []) == EndingKind.GUESSED
    assert kind_of(conditions, turns, "gone") == EndingKind.GUESSED


@pytest.fixture
def conditions():
    """What the kind needs of a run."""
    return SimpleNamespace(conditions={**CONDITIONS, "blank": Condition(name="blank", picture="blank")})


def test_only_answers_have_verdicts(tmp_path):
    store = VerdictStore(tmp_path)
    for key, judge in (("k", "a"), ("other", "a"), ("k", "b")):
        row = {"key": key, "judge": judge, "cell": "m/QD/hint", "model": "m", "scenario": "QD", "condition": "hint"}
        row |= {"sample_id": 0, "category": True, "suggestion": False, "aggregate": True}
        store.append({name: [row.get(name)] for name in VERDICTS})
    store.flush()

    judged = episode.read_verdicts(tmp_path, {"ending": "answered", "key": "k"})
    assert sorted((row["key"], row["judge"], row["aggregate"]) for row in judged) == [
        ("k", "a", True),
        ("k", "b", True),
    ]
    assert episode.read_verdicts(tmp_path, {"ending": "answered", "key": "none"}) == []
    assert episode.read_verdicts(tmp_path, {"ending": "correct", "key": "k"}) == []


def test_pictures_fill_files_of_equal_size(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "FILE_PICTURES", 2)
    writer = bundle.PictureWriter(tmp_path)
    numbers = [writer.add(f"picture {number}".encode()) for number in range(5)]

    assert numbers == [0, 1, 2, 3, 4] and writer.total == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures-0000.parquet", "pictures-0001.parquet"]
    writer.flush()
    writer.flush()
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [f"pictures-000{number}.parquet" for number in range(3)]
    assert writer.file_sizes == [path.stat().st_size for path in files]
    stored = [picture for path in files for picture in pl.read_parquet(path)["picture"]]
    assert stored == [f"picture {number}".encode() for number in range(5)]
