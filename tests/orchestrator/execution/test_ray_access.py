"""A run on one machine listens on loopback alone and answers only with the user's token, read from the sockets of a live run."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.execution.ray_cluster import LOOPBACK, close_to_other_machines, describe_open_ports
from tests.conftest import ROOT
from tests.orchestrator.rayhead import head

STRANGER = """
import sys
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).internal_kv_keys(b"", namespace=None, timeout=10))
"""
"""Reads Ray's store as a process of another user would, who does not have the token."""


@pytest.fixture
def variables(monkeypatch, tmp_path):
    """No variable of Ray's access is set, and the home folder is new; the test's changes are undone."""
    for name in (*LOOPBACK, "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_run_has_its_own_token_which_no_file_has(variables):
    close_to_other_machines()
    token = os.environ["RAY_AUTH_TOKEN"]
    close_to_other_machines()

    assert os.environ["RAY_AUTH_MODE"] == "token" and len(token) == 64 and os.environ["RAY_AUTH_TOKEN"] == token
    assert not list(variables.iterdir())


def test_users_own_choice_of_token_and_mode_stays(variables, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    close_to_other_machines()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/elsewhere")
    close_to_other_machines()
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_cluster_says_what_is_open_and_to_whom(variables, monkeypatch):
    assert describe_open_ports(["127.0.0.1", "::1"]) == ""
    assert "are open on 10.0.0.1: everyone who reaches them can run any code as you" in describe_open_ports(
        ["10.0.0.1", "10.0.0.1"]
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    addresses = [f"10.0.0.{n}" for n in range(6)]
    assert "10.0.0.3 and 2 more to everyone with the cluster's token" in describe_open_ports(addresses)


def is_local(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


LIVE = """
import os, subprocess, sys
import psutil, ray
from orchestrator.execution import ray_cluster

ray_cluster.connect()

@ray.remote
class Holder:
    def process(self):
        return os.getpid()

holder = Holder.remote()
ray.get(holder.process.remote())
me = psutil.Process()
for member in [me, *me.children(recursive=True)]:
    for opened in member.net_connections(kind="inet"):
        if opened.status == psutil.CONN_LISTEN:
            print("socket", member.name().split()[0], opened.laddr.ip)
print("gcs", ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.readline()
"""
"""Starts Ray as a run does, with one actor, prints every socket that is open, and waits for a line."""


@pytest.mark.long
def test_ray_of_a_run_listens_on_loopback_and_refuses_a_process_without_token(variables):
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {"PYTHONPATH": str(ROOT), "RAY_raylet_start_wait_time_s": "120"}
    command = [sys.executable, "-c", LIVE]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        lines = []
        while not lines or (lines[-1] and not lines[-1].startswith("gcs")):
            lines.append(process.stdout.readline())
        refusal = ask_as_stranger(lines[-1].split()[1], environment)
        process.stdin.write("\n")
    sockets = [line.split()[1:] for line in lines if line.startswith("socket")]

    assert {"gcs_server", "raylet"} < {program for program, _ in sockets}
    assert any(program.startswith("ray::") for program, _ in sockets)
    assert [socket for socket in sockets if not is_local(socket[1])] == []
    assert "uthenticat" in refusal, refusal
    assert not (variables / ".ray" / "auth_token").exists()


def ask_as_stranger(address: str, environment: dict[str, str]) -> str:
    """Return what Ray answers to a process without the token."""
    home = Path(environment["HOME"]) / "stranger"
    home.mkdir(exist_ok=True)
    stranger = {**environment, "HOME": str(home), "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", STRANGER, address]
    return subprocess.run(command, env=stranger, capture_output=True, text=True, timeout=60).stderr


JOIN = """
import ray
from orchestrator.execution import ray_cluster

ray_cluster.connect()

@ray.remote
class Adder:
    def add(self, one, other):
        return one + other

print("sum", ray.get(Adder.remote().add.remote(1, 2)))
"""


@pytest.mark.long
@pytest.mark.parametrize("mode", ["token", "disabled"])
def test_a_driver_joins_a_cluster_that_asks_for_the_users_token_and_one_that_does_not(variables, mode):
    (variables / ".ray").mkdir()
    (variables / ".ray" / "auth_token").write_text("a" * 64)
    with head(RAY_AUTH_MODE=mode, HOME=str(variables)) as cluster:
        environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
        environment |= {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": cluster.address}
        joined = subprocess.run(
            [sys.executable, "-c", JOIN], env=environment, capture_output=True, text=True, timeout=120
        )
    assert "sum 3" in joined.stdout, joined.stderr
