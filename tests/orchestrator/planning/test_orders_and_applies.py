"""The drawn order and the seeds of episodes, computed another way; which of several applied sweeps counts; picture threads."""

from hashlib import blake2b
from random import Random
from threading import Event, current_thread

import pytest

from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import CellOrdinals, drawn_order, make_plan
from orchestrator.planning.stored_keys import StoredKeys
from sweeps.conditions import CONDITIONS
from sweeps.spec import Protocol
from tests.orchestrator.planning.test_plan import samples, small_plan, sweep
from tests.orchestrator.report import runs


@pytest.mark.parametrize("seed", [0, 7])
def test_ranks_follow_a_draw_of_each_sample_by_seed_scenario_and_id(seed):
    """A folder resumes in the order in which it began, whichever version of the package goes on."""
    ids = [3, 1, 12, 7, 40, 5]
    draws = [Random(f"{seed}/ROD/{number}/order").random() for number in ids]
    ranks = tuple(sum(other < own for other in draws) for own in draws)
    assert drawn_order(seed, "ROD", ids) == ranks and sorted(ranks) == list(range(6))
    fewer = [draw for draw in draws if draw != draws[2]]
    assert drawn_order(seed, "ROD", [3, 1, 7, 40, 5]) == tuple(sum(o < own for o in fewer) for own in fewer)
    assert drawn_order(seed, "QD", []) == ()


def test_a_seed_is_of_the_sample_and_of_the_draw_of_a_replicate():
    plan, sample = small_plan(seed=3), samples()["ROD"][0]

    def seed_of(purpose):
        name = f"3/ROD/10/{purpose}".encode()
        return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") // 2

    plain = CONDITIONS["hint"]
    assert plan.episode_seed(sample) == plan.episode_seed(sample, plain) == seed_of("episode")
    assert plan.episode_seed(sample, plain.model_copy(update={"draw": 2})) == seed_of("episode-2")


def test_samples_are_found_by_id_in_either_kind_of_protocol():
    choice, opened = samples({"ROD": 2}), samples({"QD": 1, "ROD": 3}, "e")
    wanted = sweep(scenarios=["ROD", "QD"])
    plan = make_plan(wanted, {Protocol.MCQA: choice, Protocol.OEG: opened}, choice)
    assert {name: sorted(found) for name, found in plan.samples_by_id.items()} == {"ROD": [10, 11, 12], "QD": [10]}
    assert plan.open_ended_ranks["QD"] == (0,) and sorted(plan.open_ended_ranks["ROD"]) == [0, 1, 2]
    assert plan.open_ended_ranks["ROD"] == drawn_order(0, "ROD", [10, 11, 12])
    assert make_plan(wanted, {Protocol.MCQA: choice}, choice).open_ended == {}


def test_a_stopped_cell_is_pending_up_to_its_stop_in_every_queue():
    plan = small_plan(models=["uniform"], conditions=["zero-shot"], scenarios=["ROD"])
    (full,) = plan.pending(()).values()
    ranks = plan.ranks["ROD"]
    assert full == sorted(range(3), key=ranks.__getitem__)
    for stop in range(4):
        stopped = plan.with_stops({0: stop})
        assert stopped.pending(()).get("builtin", []) == full[:stop] and stopped.size(0) == stop
        keys = list(plan.keys(0))
        assert sorted(stopped.all_keys()) == sorted(keys[ordinal] for ordinal in full[:stop])
        assert stopped.pending_per_cell({"builtin": full[:stop]}) == ({0: stop} if stop else {})
    assert list(plan.numbered_keys(0)) == list(enumerate(plan.keys(0))) and list(plan.all_keys("guess")) == []
    assert (
        2 in CellOrdinals([0, 3, 5], {0})
        and 3 not in CellOrdinals([0, 3, 5], {0})
        and "2" not in CellOrdinals([0], {0})
    )
    assert StoredKeys(keys).of_cell("uniform/ROD/zero-shot") == set(keys)


def test_pictures_are_recorded_until_the_block_fails_and_waited_for_where_it_ends(tmp_path, demo_data, monkeypatch):
    plan, ended = build_plan(runs.sweep(demo_data, ["oracle"], ["hint"])), []

    def record(folder, data, paths, stop: Event):
        assert current_thread().daemon
        ended.append(stop.wait(60 if failing else 0.05))

    monkeypatch.setattr(pictures, "record_pictures", record)
    failing = False
    with pictures.recording_pictures(tmp_path, demo_data, plan):
        pass
    assert ended == [False], "its end was waited for"
    failing = True
    with pytest.raises(KeyError), pictures.recording_pictures(tmp_path, demo_data, plan):
        raise KeyError
    assert ended == [False, True], "it was told to stop"


@pytest.mark.parametrize("problem", [OSError("full"), ValueError("no plan")])
def test_a_failure_to_record_pictures_ends_no_run(tmp_path, demo_data, monkeypatch, caplog, problem):
    plan = build_plan(runs.sweep(demo_data, ["oracle"], ["hint"]))

    def fail(*_):
        raise problem

    monkeypatch.setattr(pictures, "record_pictures", fail)
    with pictures.recording_pictures(tmp_path, demo_data, plan) as stop:
        pass
    assert not stop.is_set() and caplog.messages == [f"the hashes of the pictures are not saved: {problem}"]
