"""What the steps of an attempt share: what is still to play, what is unjudged, and cells that stop by precision."""

from __future__ import annotations

import pytest

from envs.types import Ending
from orchestrator.execution.prepare import AttemptState
from orchestrator.execution.result_sink import ResultSink, build_failed_batch
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import control_log
from orchestrator.storage.control_log import ControlState
from orchestrator.storage.episode_store import EpisodeStore, episodes
from tests.orchestrator.blocks import block, episode
from tests.orchestrator.precision.wide import wide
from tests.orchestrator.report.runs import sweep


def state_of(spec, folder, **fields) -> AttemptState:
    return AttemptState(spec, build_plan(spec), folder, None, None, print, None, **fields)


def standing(*commands) -> ControlState:
    made = (control_log.parse_command(verb, target) for verb, target in commands)
    return ControlState(control_log.LogEntry(name="", command=command, taken="", effect="") for command in made)


def test_cancelled_cells_are_not_played_and_paused_ones_wait(demo_data, tmp_path):
    """Cells of ten samples: the first model's two conditions are ordinals 0 to 19, the second's 20 to 39."""
    state = state_of(sweep(demo_data, ["uniform", "oracle"], ["hint", "zero-shot"], scenarios=["ROD"]), tmp_path)
    assert [cell.key for cell in state.plan.cells] == [
        "uniform/ROD/hint", "uniform/ROD/zero-shot", "oracle/ROD/hint", "oracle/ROD/zero-shot",
    ]  # fmt: skip
    state.pending = {"one": [0, 9, 10, 19], "two": [20, 29], "three": [39]}

    state.standing = standing(("pause", "all"))
    assert state.playable == state.pending.keys()
    state.standing = standing(("cancel", "*/*/hint"))
    assert state.playable == {"one", "three"}
    state.standing = standing(("cancel", "all"))
    assert state.playable == set()


def test_a_cell_that_stops_gives_its_ordinals_once(demo_data, tmp_path):
    """The answers of one of two cells arrive, all wrong."""
    rule = {"half_width": 25.0, "per": "cell"}
    spec = sweep(wide(demo_data, tmp_path / "data"), ["uniform"], ["hint"], scenarios=["ROD", "QD"], precision=rule)
    (tmp_path / "run").mkdir()
    state = state_of(spec, tmp_path / "run")
    state.find_stops()
    assert state.stops == {} == state.plan.stops
    assert dict(state.take_new_stops()) == {} == state.stops

    plan, cell = state.plan, state.plan.cells[1]
    first, end = plan.offsets[1], plan.offsets[2]
    rows = [{**episode(s.id, cell.key, Ending.WRONG, 1), "key": plan.key(1, s)} for s in plan.cell_samples(cell)]
    batch = block(rows)
    batch.ordinals[:] = range(first, end)
    state.rule.add_batch(batch)
    assert dict(state.take_new_stops()) == {"builtin": set(range(first, end))}
    assert dict(state.take_new_stops()) == {} and list(state.stops) == [1] and state.plan.stops == {}
    state.replan()
    assert state.plan.stops == state.stops and list(state.stops) == [1]


@pytest.fixture
def sink(demo_data, tmp_path):
    plan = build_plan(sweep(demo_data, ["uniform"], ["hint", "zero-shot"], scenarios=["ROD"]))
    stored = []
    made = ResultSink(EpisodeStore(tmp_path), plan, on_stored=stored.append)
    made.seen = stored
    yield made
    made.store.close()


def test_each_episode_is_stored_and_counted_once(sink, tmp_path):
    sink.give_up([3, 4, 12], "it died twice")
    duplicates = sink.add(build_failed_batch(sink.plan, [4, 5], "it died again"))

    assert duplicates.ordinals == [5] and [batch.ordinals for batch in sink.seen] == [[3, 4, 12], [5]]
    assert sink.stored_per_group == sink.errors == {"builtin": 4}
    assert sum(sink.delivered) == 4 and len(sink.delivered) == 20
    sink.store.flush()
    rows = {row["key"]: row["error"] for row in episodes(tmp_path).collect().iter_rows(named=True)}
    reasons = {3: "it died twice", 4: "it died twice", 12: "it died twice", 5: "it died again"}
    assert rows == {sink.plan.key(*sink.plan.task(ordinal)): reason for ordinal, reason in reasons.items()}
