"""The comparison of a stored episode with two replays, without the package: the replay's own facts stand for the package's."""

import copy

import pytest

from envs.samples import load_samples
from orchestrator.audit.audit import Audit
from orchestrator.audit.game_turns import COUNTED, STORED, differences, task
from orchestrator.audit.records import EpisodeDifference, Recording
from orchestrator.storage.episode_store import episodes, turns
from tests.orchestrator.report.runs import play_sweep, sweep


@pytest.fixture(scope="module")
def recordings(demo_data, tmp_path_factory):
    """The episodes of two policies in two scenarios."""
    wanted = sweep(demo_data, ["always-ask", "uniform"], ["hint", "history"], scenarios=["ROD", "QD"])
    folder = play_sweep(tmp_path_factory.mktemp("audit") / "run", wanted)
    cells = {cell.key: cell for cell in wanted.cells()}
    samples = {(name, s.id): s for name in ("ROD", "QD") for s in load_samples(demo_data, name)}
    lists = turns(folder).sort("key", "turn").group_by("key").agg(*STORED)
    names = {name: f"n_{name}" for name in ("turns", "correct", *COUNTED)}
    rows = episodes(folder).rename(names).join(lists, on="key").sort("key").collect()
    return [
        Recording(row, cells[row["cell"]], samples[row["scenario"], row["sample_id"]])
        for row in rows.iter_rows(named=True)
    ]


def honest_reference(recording):
    """Return what the package answers if it plays as we do: our facts, which the differences from nothing hold."""
    nothing = {"turns": [], "ending": recording.row["ending"], "raised": ""}
    played = [difference.ours for difference in differences(recording, nothing) if difference.package is None]
    return {**nothing, "turns": played}


def test_the_package_gets_replies_and_under_a_lenient_reading_the_options_that_were_read(recordings):
    recording = next(each for each in recordings if each.row["option"][0])
    row = {**recording.row, "reply": [f"{reply} I think." for reply in recording.row["reply"]]}
    lenient = recording.cell.condition.model_copy(update={"lenient": True})
    cell = recording.cell.model_copy(update={"condition": lenient})

    assert task(Recording(row, recording.cell, recording.sample))["replies"] == row["reply"]
    read = task(Recording(row, cell, recording.sample))["replies"]
    assert len(read) <= len(row["reply"]) and not any("I think" in str(reply) for reply in read)


def test_honest_episodes_have_no_difference(recordings):
    assert len(recordings) == 2 * 2 * 20
    for recording in recordings:
        reference = honest_reference(recording)
        assert len(reference["turns"]) == len(recording.row["reply"]) and not list(differences(recording, reference))


@pytest.mark.parametrize("name", [name for name in STORED if name != "reply"])
def test_a_changed_column_is_named_with_its_turn(recordings, name):
    recording = next(each for each in recordings if len(each.row["reply"]) > 2)
    reference = honest_reference(recording)
    row = copy.deepcopy(recording.row)
    row[name][1] = 99 if name == "frame" else "other"

    (difference,) = differences(Recording(row, recording.cell, recording.sample), reference)
    assert (difference.key, difference.what) == (row["key"], f"turn 1, {name}")
    assert (difference.stored, difference.ours, difference.package) == (
        row[name][1],
        recording.row[name][1],
        "not asked",
    )


@pytest.mark.parametrize("name", ["turns", "correct", *COUNTED])
def test_a_changed_count_is_named(recordings, name):
    recording = recordings[0]
    row = {**recording.row, f"n_{name}": recording.row[f"n_{name}"] + 1}

    listed = list(differences(Recording(row, recording.cell, recording.sample), honest_reference(recording)))
    assert [each.what for each in listed] == [name] and listed[0].ours == recording.row[f"n_{name}"]


def test_what_the_package_plays_otherwise_is_named(recordings):
    recording = next(each for each in recordings if len(each.row["reply"]) > 2)
    reference = honest_reference(recording)
    played = copy.deepcopy(reference["turns"])
    played[1][-1] = "other"

    (difference,) = differences(recording, {**reference, "turns": played})
    assert difference.what == "turn 1" and difference.package[-1] == "other"
    (difference,) = differences(recording, {**reference, "ending": "somehow"})
    assert (difference.what, difference.package) == ("ending", "somehow")
    assert not list(differences(recording, {"turns": reference["turns"][:1], "ending": "", "raised": "KeyError"})), (
        "where the package raises, the store alone is compared"
    )
    missing = list(differences(recording, {**reference, "turns": reference["turns"][:1]}))
    assert [difference.what for difference in missing] == [f"turn {n}" for n in range(1, len(reference["turns"]))]


def test_replies_after_the_end_are_a_difference(recordings):
    recording = next(each for each in recordings if each.row["ending"] == "correct")
    row = {**recording.row, **{name: [*recording.row[name], recording.row[name][-1]] for name in STORED}}

    listed = list(differences(Recording(row, recording.cell, recording.sample), honest_reference(recording)))
    assert [(each.what, each.stored, each.ours) for each in listed] == [
        ("turns", len(row["reply"]), len(recording.row["reply"]))
    ]


def test_the_package_gets_replies_moves_and_options(recordings):
    recording = next(each for each in recordings if each.cell.condition.name == "hint" and each.cell.scenario == "QD")
    request = task(recording)

    assert request["replies"] == recording.row["reply"] and request["moves"] == recording.row["move"]
    assert (request["stem"], request["id"], request["hint"]) == ("QuickDraw", recording.sample.id, True)
    assert (request["options"], request["categories"]) == (recording.sample.options, recording.sample.categories)
    assert request["mode"] == recording.cell.condition.mode.value


def test_lines_name_what_was_compared_and_what_was_not():
    difference = EpisodeDifference("k", "turn 0", 1, 2, 3)
    assert str(difference) == "k: turn 0: stored 1, ours 2, package 3"
    assert Audit(1_000, 2_000, 0, (), (), 0, 0, 0).clean and not Audit(1, 1, 0, (difference,), (), 0, 0, 0).clean
    assert not Audit(1, 1, 0, (), (), 3, 0, 0).clean
    assert list(Audit(1_000, 2_000, 0, (), (), 0, 0, 0).lines()) == ["1,000 episodes, 2,000 turns: 0 differences"]
    assert list(
        Audit(1_000, 2_000, 3_000, (difference,), ("k: the package raises KeyError",), 1_004, 5, 6).lines()
    ) == [
        "k: turn 0: stored 1, ours 2, package 3",
        "k: the package raises KeyError",
        "the package raises in 1 episodes (docs/decisions/0001), compared up to that turn",
        "1,004 stored episodes are not compared: the data folder lacks their samples; name the run's data folder with --data",
        "5 episodes are not compared: their scenarios are not in the published package",
        "6 episodes of decision maps and operating curves are not compared: the package has no such question",
        "1,000 episodes, 2,000 turns, 3,000 verdicts: 1 differences",
    ]
    assert len(list(Audit(1, 1, 0, (difference,) * 500, (), 0, 0, 0).lines())) == 21, "twenty differences are printed"
