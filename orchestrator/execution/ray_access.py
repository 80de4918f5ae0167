"""Who may use Ray's ports: this machine's own Ray listens on loopback and asks for a token; a joined cluster is described."""

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Sequence

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
