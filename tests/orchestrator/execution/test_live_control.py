"""Live control of a sweep: whatever is asked, and whatever dies, each episode is stored once and the results are the same."""

from random import Random

import pytest

from orchestrator.execution.live_control import take_waiting_commands
from orchestrator.planning.build_plan import build_plan
from orchestrator.storage import control_log
from orchestrator.storage.control_state import read_control_state
from orchestrator.storage.episode_store import episodes, turns
from tests.orchestrator.execution.controlled import (
    MODELS,
    Cluster,
    RandomOperator,
    finish,
    kill_driver_while_polling,
    sweep_of,
)
from tests.orchestrator.precision.wide import wide

COMMANDS = 200


@pytest.fixture(scope="module")
def sweep(demo_data):
    return sweep_of(demo_data)


@pytest.fixture(scope="module")
def plan(sweep):
    return build_plan(sweep)


@pytest.fixture(scope="module")
def undisturbed(sweep, plan, tmp_path_factory):
    """Return results.json of the same sweep, played without commands and faults."""
    cluster = Cluster(sweep, plan, tmp_path_factory.mktemp("undisturbed"), Random(0))
    cluster.begin()
    finish(cluster)
    return cluster.close()


@pytest.fixture
def cluster(sweep, plan, tmp_path):
    created = Cluster(sweep, plan, tmp_path, Random(1))
    created.begin()
    yield created
    created.store.close()


def ask(cluster, verb, target) -> control_log.LogEntry:
    """Send a command, let the driver poll, and return its log entry."""
    name = control_log.send_command(cluster.folder, control_log.Command(verb=verb, target=target))
    cluster.control.poll()
    return next(entry for entry in control_log.read_history(cluster.folder) if entry.name == name)


def stored_keys(folder) -> set[str]:
    return set(episodes(folder).collect()["key"])


def disturb(cluster, patch) -> tuple[RandomOperator, int]:
    """Play with ``COMMANDS`` random commands and faults; return their sender and the number of driver deaths."""
    cluster.begin()
    chance, deaths = cluster.chance, 0
    operator = RandomOperator(cluster, chance)
    while operator.sent < COMMANDS:
        for _ in range(chance.randint(0, 3)):
            cluster.step(death_rate=0.02)
        operator.send_command()
        fault = chance.random()
        if fault < 0.04:
            kill_driver_while_polling(cluster, patch, logged=fault < 0.02)
        elif fault < 0.06:
            cluster.restart_driver()
        elif fault < 0.12:
            cluster.change_nodes()
        deaths += fault < 0.06
        cluster.control.poll()
    return operator, deaths


@pytest.mark.parametrize("seed", range(3))
def test_random_commands_and_faults_lose_and_double_nothing(sweep, plan, undisturbed, tmp_path, seed, monkeypatch):
    chance = Random(f"controlled/{seed}")
    cluster = Cluster(sweep, plan, tmp_path, chance, poison=set(chance.sample(range(plan.total), 3)))
    operator, deaths = disturb(cluster, monkeypatch)
    cluster.store.flush()
    before = len(stored_keys(tmp_path))
    cluster.poison.clear()
    cluster.nodes = ()
    operator.undo_all()
    cluster.restart_driver()
    finish(cluster)
    results = cluster.close()

    rows = episodes(tmp_path).collect()
    assert deaths and 0 < before < plan.total, "the commands fall into the run"
    assert (rows.height, rows["key"].n_unique()) == (plan.total, plan.total)
    assert set(rows["key"]) == set(plan.all_keys())
    assert turns(tmp_path).collect().height == rows["turns"].sum()
    assert results == undisturbed
    taken_names = [entry.name for entry in control_log.read_history(tmp_path)]
    assert len(taken_names) == len(set(taken_names)), "no command is taken twice"
    assert len(taken_names) >= COMMANDS and not control_log.waiting_commands(tmp_path)
    assert any(entry.refused for entry in control_log.read_history(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("seed, ranking", [(0, False), (1, True)])
def test_commands_and_faults_change_no_stop_by_precision(demo_data, tmp_path, seed, ranking, monkeypatch):
    """A failed episode that is taken back opens its cell again, so a stopped sweep may have to go on once more."""
    sweep = sweep_of(wide(demo_data, tmp_path / "data"), precision={"half_width": 6.0, "ranking": ranking})
    plan, results = build_plan(sweep), []
    for name in ("undisturbed", "disturbed"):
        chance = Random(f"precise/{seed}")
        cluster = Cluster(sweep, plan, tmp_path / name, chance)
        if name == "disturbed":
            cluster.poison |= set(chance.sample(range(plan.total), 5))
            operator, deaths = disturb(cluster, monkeypatch)
            assert deaths
            cluster.poison.clear()
            cluster.nodes = ()
            operator.undo_all()
            cluster.restart_driver()
        else:
            cluster.begin()
        finish(cluster)
        while cluster.plan.pending(stored_keys(cluster.folder)):
            cluster.restart_driver()
            finish(cluster)
        results.append(cluster.close())
        rows = episodes(cluster.folder).collect()
        assert rows["key"].n_unique() == rows.height < plan.total and cluster.plan.stops

    assert results[0] == results[1]


def test_paused_model_is_not_played_until_resumed(cluster, plan):
    assert ask(cluster, "pause", "m0").effect == "21 cells are paused; episodes in play end and are stored"
    for _ in range(5000):
        cluster.step()
    cluster.store.flush()
    played = stored_keys(cluster.folder)

    assert not any(key.startswith("m0/") for key in played)
    assert len(played) == plan.total * 3 // 4
    assert not cluster.schedule.done and not cluster.alive

    ask(cluster, "resume", "all")
    finish(cluster)
    assert len(stored_keys(cluster.folder)) == plan.total


def test_cancelled_cell_stays_cancelled_until_restored(cluster, plan):
    ask(cluster, "cancel", "*/ROD/hint")
    cluster.restart_driver()
    finish(cluster)
    cells = set(episodes(cluster.folder).collect()["cell"])

    assert not any(cell.endswith("/ROD/hint") for cell in cells)
    assert len(cells) == len(plan.cells) - len(MODELS)
    assert cluster.schedule.done, "the sweep ends without what is cancelled"

    ask(cluster, "restore", "all")
    finish(cluster)
    assert stored_keys(cluster.folder) == set(plan.all_keys())


def test_drained_node_plays_nothing_until_undrained(cluster):
    ask(cluster, "drain", "second")
    cluster.restart_driver()
    for _ in range(20):
        cluster.step()
        assert "n2" not in cluster.alive.values()

    ask(cluster, "undrain", "second")
    assert "n2" in cluster.alive.values()


@pytest.mark.parametrize(
    "verb, target, why",
    [
        ("pause", "m9", "m9 matches no cell of this sweep; its models are m0, m1, m2, wide"),
        ("cancel", "judge", "judge matches no cell of this sweep"),
        ("drain", "n", "n matches several GPU nodes of the cluster; its GPU nodes: first (n1), second (n2)"),
        ("drain", "n3", "n3 is not a GPU node of the cluster"),
        ("set", "cluster.gpus", "ctl set is gone (last in 0.2.0)"),
        ("requeue", "all", "ctl requeue is gone (last in 0.2.0)"),
    ],
)
def test_impossible_command_is_refused_and_changes_nothing(cluster, verb, target, why):
    before = cluster.schedule.shares, cluster.schedule.closed, list(cluster.control.standing.entries)

    entry = ask(cluster, verb, target)

    assert entry.refused and entry.effect.startswith(why)
    assert (cluster.schedule.shares, cluster.schedule.closed, list(cluster.control.standing.entries)) == before
    assert not read_control_state(cluster.folder).entries


def test_commands_sent_before_a_driver_take_effect(cluster, plan):
    for verb, target in (("cancel", "m1"), ("pause", "m9"), ("drain", "n1")):
        control_log.send_command(cluster.folder, control_log.Command(verb=verb, target=target))
    take_waiting_commands(cluster.folder, plan)

    assert [entry.refused for entry in control_log.read_history(cluster.folder)] == [False, True, False]
    cluster.restart_driver()
    finish(cluster)
    assert not any(key.startswith("m1/") for key in stored_keys(cluster.folder))
    assert cluster.schedule.closed == {"n1"}
