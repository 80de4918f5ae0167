"""The connection to Ray: joins the cluster of RAY_ADDRESS, or starts one on this machine."""

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable
from typing import Any

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config, GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError
from ray.job_config import JobConfig

from actors.node.import_path import imports_working_folder
from actors.text.printable import error_text
from orchestrator.execution import ray_access
from sweeps.load import SweepError

CONNECT_PAUSES_S = (0.0, 2.0, 5.0)
"""Seconds to wait before each try to reach or start Ray."""
CONNECT_TIMEOUT_S = 5.0
"""Seconds that a cluster's port may take to answer."""


def connect(say: Callable[[str], None] = lambda line: None) -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine without a dashboard.

    ``say`` gets progress lines. Raises SweepError if every try fails.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    # the error of a lost worker's second lease stays unread, because the loss is already reported
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    address = ray_access.cluster_address()
    if ray.is_initialized():
        return
    activity, began = f"joining Ray at {address}" if address else "starting Ray", time.monotonic()
    say(f"{activity} ...")
    _retry_init(address)
    say(f"{activity} took {time.monotonic() - began:.1f} s")
    nodes = [node["NodeManagerAddress"] for node in ray.nodes() if address and node["Alive"]]
    if ports := ray_access.describe_open_ports(nodes):
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
    folder = f"{tempfile.gettempdir()}/ray"
    plain = "; unset TMPDIR, or set it to a short path of plain letters" if "TMPDIR" in os.environ else ""
    raise SweepError(
        f"Ray does not start on this machine ({reason}){plain}; its logs are in {folder}/session_latest/logs"
    )


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
        _close_to_other_machines()
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
        os.environ.setdefault(ray_access.MODE, "token")
        Config.initialize("")


def _close_to_other_machines() -> None:
    """Set the variables of ``ray_access``, and make Ray read them again: this process read them when it imported Ray."""
    ray_access.close_to_other_machines()
    ray_constants.ENABLE_RAY_CLUSTER = False
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
