"""Simulated runs that die in every way keep every invariant, and planted bugs are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.__main__ import failure, find_mutant, new_world, shrink_mutant
from tests.simulation.mutants import MUTANTS
from tests.simulation.replay import SIMULATED, replay
from tests.simulation.schedule import Event, Schedule, draw, shrink


@pytest.fixture(scope="module")
def world():
    with new_world() as world:
        yield world


def play_seeds(world, seeds) -> None:
    for seed in seeds:
        world.undisturbed(seed)
        assert failure(world, draw(seed)) == "", draw(seed)


@pytest.mark.slow
def test_storms_of_faults_change_no_result(world):
    play_seeds(world, range(9))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_more_storms_of_faults_change_no_result(world):
    play_seeds(world, range(100, 300))


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_every_planted_bug_is_found(world, name):
    assert find_mutant(world, name, seeds=400), "no seed finds it"


@pytest.mark.slow
def test_a_run_is_the_same_each_time(world):
    traces = []
    for _ in range(2):
        world.play(draw(4))
        traces.append(world.trace)
    assert traces[0] == traces[1] and len(traces[0]) > 1


@pytest.mark.slow
def test_a_planted_bug_is_found_and_its_schedule_is_short_and_a_test(world):
    name = "what a lost worker had is not queued again"
    seed, reason = find_mutant(world, name, seeds=40)
    small = shrink_mutant(world, name, seed, reason)

    assert "episodes of" in reason and "are missing" in reason and 1 <= len(small.events) <= 3
    names = {"Event": Event, "Schedule": Schedule, "AssertionError": AssertionError}
    exec(str(small), names)
    names[f"test_seed_{seed}"](world)  # without the bug it passes


def test_shrinking_keeps_only_the_faults_that_matter():
    events = tuple(Event(0, "stop", float(number)) for number in range(16))

    small = shrink(Schedule(0, events), lambda schedule: {3.0, 11.0} <= {event.at for event in schedule.events})

    assert [event.at for event in small.events] == [3.0, 11.0]


def test_a_pause_outlives_the_driver_and_ends_when_it_is_resumed(world):
    """Found by seed 1026: the command that ends the pause was due after the driver's death."""
    events = (Event(0, "pause", 2.03, 0.265), Event(0, "power loss at disk operation", 55, 2.18))
    world.play(Schedule(1026, events))


def test_a_result_that_ray_has_lost_is_played_again(world):
    """Found by the first seeds: ``ObjectLostError`` ended the driver."""
    world.undisturbed(0)
    world.play(Schedule(0, (Event(0, "lost object", 3),)))


@pytest.mark.parametrize(
    ("seed", "events"),
    [
        (2268, (Event(1, "power loss at disk operation", 21, 1.49),)),
        (2326, (Event(0, "power loss at disk operation", 56, 8.82),)),
    ],
)
def test_a_power_loss_leaves_no_file_that_is_named_as_missing_for_ever(world, seed, events):
    """Found by these seeds: a torn line of sums named a file, and a lost folder of verdicts kept its parts."""
    world.undisturbed(seed)
    world.play(Schedule(seed, events))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_power_loss_at_any_disk_operation_of_a_judged_attempt_leaves_no_fault(world):
    """Found at 144 and 145: nothing took back the sum of a merged part of verdicts, as the next attempt judged nothing."""
    world.undisturbed(1)
    for operation in range(1, 180):
        schedule = Schedule(1, (Event(0, "power loss at disk operation", operation, 1.0),))
        assert failure(world, schedule) == "", schedule


@pytest.mark.slow
def test_a_soak_of_a_real_cluster_is_replayed_with_the_same_reactions(world):
    """The record is of ``make soak``; its log has only the lines of reactions, without names of machines."""
    lines = replay(world, Path(__file__).parent / "soak_record.json")

    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and "---" not in line][1:]
    assert {kind for kind, *_ in rows} <= {*SIMULATED.values()} and len(rows) >= 2
    assert [row for row in rows if row[-1] != "-"] == [], "the simulated driver never reacts as the real one did"
