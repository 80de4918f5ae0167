"""Every node reports its load; a lost or silent node delays no other, and a silent one is not asked again."""

from __future__ import annotations

import asyncio
import gc
import os

import pytest

from orchestrator.tracking import system_metrics
from orchestrator.tracking.system_metrics import MEAN_GPU_UTILIZATION, SystemMetrics
from tests.actors.service import completion, service
from tests.conftest import ENVIRONMENT, ROOT, Cli
from tests.orchestrator.mlflow_stores import parent, runs

BUSY = {"cpu_utilization_percentage": 50.0, "gpu_0_utilization_percentage": 100.0, "gpu_1_utilization_percentage": 40.0}


class Nodes:
    """``a`` answers, ``gone`` raises, ``hung`` never answers."""

    def __init__(self, **hosts: str) -> None:
        self.all, self.asked = hosts, list[str]()

    def hosts(self):
        return self.all

    async def ask(self, node):
        self.asked.append(node)
        if node == "gone":
            raise ConnectionError("no such node")
        if node == "hung":
            await asyncio.sleep(3600)
        return BUSY


def test_lost_and_silent_nodes_are_left_out():
    nodes = Nodes(a="alpha", gone="beta", hung="gamma")

    async def twice():
        metrics = SystemMetrics(nodes.hosts, nodes.ask)
        return [await metrics.sample(timeout=0.5) for _ in range(2)]

    first, second = asyncio.run(twice())

    assert (
        first
        == second
        == {f"system/alpha/{metric}": value for metric, value in BUSY.items()} | {MEAN_GPU_UTILIZATION: 70.0}
    )
    assert sorted(nodes.asked) == ["a", "a", "gone", "gone", "hung"]


def test_node_lost_after_timeout_prints_nothing():
    errors = []

    async def dies_late(node):
        await asyncio.sleep(0.1)
        raise ConnectionError("the node died")

    async def rounds():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        metrics = SystemMetrics(lambda: {"a": "alpha"}, dies_late)
        assert await metrics.sample(timeout=0.01) == {}
        await asyncio.sleep(0.3)
        metrics._requests.clear()
        gc.collect()

    asyncio.run(rounds())

    assert errors == []


def test_nodes_of_one_host_have_their_own_names():
    async def answer(node):
        return {"cpu_utilization_percentage": 5.0}

    metrics = asyncio.run(SystemMetrics(lambda: {"1" * 8: "alpha", "2" * 8: "alpha", "3" * 8: "beta"}, answer).sample())

    assert set(metrics) == {
        "system/alpha-111111/cpu_utilization_percentage",
        "system/alpha-222222/cpu_utilization_percentage",
        "system/beta/cpu_utilization_percentage",
    }


@pytest.mark.parametrize("switch", ["false", "False"])
def test_disabled_system_metrics_ask_no_node(switch, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", switch)
    nodes = Nodes(a="alpha")

    asyncio.run(asyncio.wait_for(SystemMetrics(nodes.hosts, nodes.ask).run(lambda load: None), 1))

    assert nodes.asked == []


@pytest.mark.parametrize(
    ("setting", "seconds"),
    [
        (None, None), ("", None), ("soon", None), ("0", 1.0), ("0.5", 1.0), ("-3", 1.0), ("1.5", 1.5), ("600", 600.0),
    ],
)  # fmt: skip
def test_an_interval_is_mlflows_setting_but_a_second_at_least(setting, seconds):
    assert system_metrics._seconds(setting) == seconds


@pytest.mark.parametrize(("setting", "pause"), [("", 30.0), ("2", 2.0)])
@pytest.mark.parametrize("switch", [None, "", "true", "0"])
def test_each_sample_with_a_value_is_published_after_a_pause(switch, setting, pause, monkeypatch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", setting)
    monkeypatch.delenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", raising=False)
    if switch is not None:
        monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", switch)
    monkeypatch.setattr(system_metrics, "monotonic", lambda: 5.0)
    pauses, published, real = [], [], asyncio.sleep

    async def sleep(seconds):
        pauses.append(seconds)
        await real(0)
        if len(pauses) == 4:
            raise asyncio.CancelledError

    loads = iter([{"cpu": 1.0}, {}, {"cpu": 2.0}])

    async def answer(node):
        return next(loads)

    async def run():
        monkeypatch.setattr(asyncio, "sleep", sleep)
        await SystemMetrics(lambda: {"a": "alpha"}, answer).run(published.append)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    monkeypatch.undo()
    assert pauses == [pause] * 4
    assert published == [{"system/alpha/cpu": 1.0}, {"system/alpha/cpu": 2.0}]


def test_only_gpus_count_in_the_mean_and_a_cluster_without_nodes_has_no_load():
    loads = {
        "a": {"gpu_0_utilization_percentage": 10.0, "gpu_0_memory_usage_percentage": 99.0},
        "b": {"gpu_7_utilization_percentage": 40.0, "cpu_utilization_percentage": 99.0, "gpu_x": 99.0},
    }

    async def answer(node):
        return loads[node]

    measured = asyncio.run(SystemMetrics(lambda: {"a": "alpha", "b": "beta"}, answer).sample())
    assert measured.pop("system/gpus_utilization_percentage") == 25.0
    assert measured == {
        f"system/{host}/{name}": value
        for host, node in (("alpha", "a"), ("beta", "b"))
        for name, value in loads[node].items()
    }
    assert asyncio.run(SystemMetrics(dict, answer).sample()) == {} and system_metrics.SAMPLE_TIMEOUT_S == 10.0


PYNVML = """
import sys
from pathlib import Path
sys.path.remove(str(Path(__file__).parent))
del sys.modules["pynvml"]
from tests.actors.fake_nvml import MIB, FakeGpu, FakeNvml  # it needs the real package's errors
sys.modules["pynvml"] = FakeNvml(FakeGpu(used=1000 * MIB, total=4000 * MIB, busy=80, milliwatts=300_000))
"""
"""A module that shadows the real one on a node's path and installs a fake driver."""


@pytest.fixture
def slow_service():
    """A slow model, so that seventy episodes last long enough to be sampled."""
    pytest.importorskip("openai")
    with service(lambda number, body: completion("A"), delay=0.3) as server:
        yield server


@pytest.mark.long
@pytest.mark.slow
def test_sweep_records_load_of_its_nodes(slow_service, demo_data, tmp_path):
    """A head node with the driver, and a node whose fake ``pynvml`` reports a GPU."""
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    (tmp_path / "first").mkdir()
    (tmp_path / "first/pynvml.py").write_text(PYNVML)
    path = os.pathsep.join([str(tmp_path / "first"), str(ROOT)])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=2, num_gpus=0, env_vars={"PYTHONPATH": path})
        sweep = tmp_path / "sweep.toml"
        sweep.write_text(
            f'name = "sweep"\ndata = "{demo_data}"\nconditions = ["zero-shot"]\n[[model]]\nname = "slow"\nsource = "m"\n'
            f'endpoint = {{ base_url = "{slow_service.url}", key_env = "" }}\n'
        )
        pace = {"MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL": "1"}
        environment = {**os.environ, **pace, "RAY_ADDRESS": cluster.address, "PYTHONPATH": str(ROOT)}
        done = Cli(environment).run("run", sweep, "--output", tmp_path / "run")
    finally:
        cluster.shutdown()

    assert done.returncode == 0, done.stderr
    metrics = parent(runs(tmp_path / "run")).data.metrics
    assert len([name for name in metrics if name.endswith("/cpu_utilization_percentage")]) == 2
    assert [metrics[name] for name in metrics if name.endswith("/gpu_0_memory_usage_percentage")] == [25.0]
    assert metrics[MEAN_GPU_UTILIZATION] == 80.0
