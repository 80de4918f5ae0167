"""The connection to Ray: joins the cluster of RAY_ADDRESS, or starts one on this machine.

This machine's own Ray listens on loopback and asks for a token; of a joined cluster, ``connect`` says who may use its ports.
"""

import contextlib
import ipaddress
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config, GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError
from ray.job_config import JobConfig

from actors.node.import_path import imports_working_folder
from actors.text.printable import error_text
from sweeps.load import SweepError

CONNECT_PAUSES_S = (0.0, 2.0, 5.0)
"""Seconds to wait before each try to reach or start Ray."""
CONNECT_TIMEOUT_S = 5.0
MODE, TOKEN, TOKEN_FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Ray's variables for its token authentication."""
NODE_ADDRESS_SWITCH = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable; ``0`` gives the node the address 127.0.0.1, so all processes of Ray listen only on loopback."""
LOOPBACK = {
    NODE_ADDRESS_SWITCH: "0",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
}
"""Variables that keep Ray, vLLM and torch's process groups on this machine."""
OPEN_PORTS = "Ray's ports (GCS, raylets, agents, workers, this driver)"


def cluster_address() -> str:
    """Return the address of the cluster to join; empty to start Ray on this machine (no RAY_ADDRESS, or ``local``)."""
    address = os.environ.get("RAY_ADDRESS", "")
    return "" if address == "local" else address


def connect(say: Callable[[str], None] = lambda line: None) -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine. Raises SweepError if every try fails."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    # the error of a lost worker's second lease stays unread, because the loss is already reported
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    address = cluster_address()
    if ray.is_initialized():
        return
    activity, began = f"joining Ray at {address}" if address else "starting Ray", time.monotonic()
    say(f"{activity} ...")
    _retry_init(address)
    say(f"{activity} took {time.monotonic() - began:.1f} s")
    nodes = [node["NodeManagerAddress"] for node in ray.nodes() if address and node["Alive"]]
    if ports := describe_open_ports(nodes):
        say(ports)


def _retry_init(address: str) -> None:
    reason = ""
    for pause in CONNECT_PAUSES_S:
        time.sleep(pause)
        try:
            _init(address)
            return
        except Exception as problem:  # Ray raises ConnectionError, RuntimeError, ValueError and errors of its own
            reason = error_text(problem)
            with contextlib.suppress(Exception):
                ray.shutdown()
    if address:
        raise SweepError(
            f"no Ray cluster answers at RAY_ADDRESS={address} ({reason}); start it with `ray start --head` of this environment,"
            " or unset RAY_ADDRESS to play on this machine alone"
        )
    logs = f"{tempfile.gettempdir()}/ray/session_latest/logs"
    plain = "; unset TMPDIR, or set it to a short path of plain letters" if "TMPDIR" in os.environ else ""
    raise SweepError(f"Ray does not start on this machine ({reason}){plain}; its logs are in {logs}")


class OwnImports(JobConfig):  # type: ignore[misc]
    """A job whose workers import from the working folder only if the driver does; Ray alone would always put it first."""

    _py_driver_sys_path: list[str]

    def _serialize(self) -> str:
        if not imports_working_folder():
            working = os.path.abspath(os.curdir)
            self._py_driver_sys_path = [folder for folder in self._py_driver_sys_path if folder != working]
        return super()._serialize()  # type: ignore[no-any-return]


def _init(address: str) -> None:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "job_config": OwnImports()}
    if not address:
        close_to_other_machines()
        ray_constants.ENABLE_RAY_CLUSTER = False  # Ray read the variables when this process imported it
        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()
        ray.init(address="local", include_dashboard=False, num_cpus=os.cpu_count() or 1, **common)
        return
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if host and port.isdigit():  # Ray itself takes a minute to fail if nothing listens on the port
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
        if not scheme:
            _send_token_if_asked(address)
    ray.init(**common)


def _send_token_if_asked(address: str) -> None:
    """Send the user's token to a cluster that asks for it; a driver that sends one unasked would refuse the cluster's calls.

    ``ray start`` asks for a token as soon as the user has one, but a driver that joins sends none by itself.
    """
    Config.initialize("")  # an earlier run of this process may have had a token
    try:
        GcsClient(address=address).internal_kv_keys(b"", namespace=None, timeout=CONNECT_TIMEOUT_S)
    except AuthenticationError:
        os.environ.setdefault(MODE, "token")
        Config.initialize("")


def close_to_other_machines() -> None:
    """Make a Ray that this process starts listen only on loopback, and answer only processes that have its token.

    Unless the user names a token, the processes of this run inherit one that is written nowhere.
    """
    for name, value in LOOPBACK.items():
        os.environ.setdefault(name, value)
    os.environ[NODE_ADDRESS_SWITCH] = LOOPBACK[NODE_ADDRESS_SWITCH]
    os.environ.setdefault(MODE, "token")
    if os.environ[MODE].lower() == "token" and not (os.environ.get(TOKEN) or os.environ.get(TOKEN_FILE)):
        os.environ[TOKEN] = secrets.token_hex(32)


def describe_open_ports(addresses: Sequence[str]) -> str:
    """Return a sentence about the ports of a joined cluster and who may use them; empty if all its nodes are on loopback."""
    others = [address for address in dict.fromkeys(addresses) if not _is_loopback(address)]
    if not others:
        return ""
    names = ", ".join(others[:4]) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
    if os.environ.get(MODE, "").lower() == "token":
        return f"{OPEN_PORTS} are open on {names} to everyone with the cluster's token; without Ray's TLS it is unencrypted"
    return (
        f"{OPEN_PORTS} are open on {names}: everyone who reaches them can run any code as you; restart the cluster with "
        f"{MODE}=token on each node, or close its network (docs/security.md)"
    )


def _is_loopback(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return address == "localhost"
