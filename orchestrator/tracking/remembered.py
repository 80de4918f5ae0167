"""What a run folder remembers of its runs in MLflow (``mlflow.json``): by address the mark, the experiment and the parent run.

A copied or moved folder of the same sweep keeps its mark, so it updates its runs and never doubles them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from actors.redaction import redact_address
from envs import regular
from orchestrator.storage import atomic_write
from orchestrator.tracking import local_store
from orchestrator.tracking.saved_views import MODELS, link
from sweeps.values import digest

LINKS = "mlflow.json"
LARGEST = 1 << 20
"""Bytes of it that are read."""
LOCAL = "sqlite"
UI = "http://127.0.0.1:5000"
"""Where ``mlflow ui`` listens."""


def address(uri: str, folder: Path) -> str:
    """``sqlite`` is a file in the run folder; anything else is an address as it stands."""
    return f"sqlite:///{(folder / local_store.NAME).resolve()}" if uri == LOCAL else uri


def mark(folder: Path, uri: str, identity: str) -> str:
    """This folder's mark at this address, made on first use.

    ``identity`` says which sweep it is (``identified``): a folder at another place that is of another sweep makes its own.
    """
    place = digest(str(folder.resolve()))  # no host: a shared folder resumes from any node
    known = _entry(_links(folder), folder, uri)
    mine = known.get("place") == place or known.get("sweep") == identity
    found = str(known.get("mark")) if mine else ""
    found = found if re.fullmatch("[0-9a-f]{16}", found) else token_hex(8)
    remember(folder, uri, mark=found, place=place, sweep=identity)
    return found


def remember(folder: Path, uri: str, **facts: str) -> None:
    """Keep facts of an address; those of another mark are dropped."""
    links = _links(folder)
    before = _entry(links, folder, uri)
    known = before if before.get("mark") == facts["mark"] else {}
    key = _key(folder, uri)
    if links.get(key) != (made := {**known, **facts}):
        links[key] = made
        atomic_write.write(folder / LINKS, (json.dumps(links, indent=1) + "\n").encode())


def identified(name: str, params: Mapping[str, str]) -> str:
    """Digest of a sweep's name and parameters."""
    return digest(json.dumps([name, sorted((key, text) for key, text in params.items() if text != "None")]))


def pages(folder: Path) -> list[str]:
    """One line an address: where a browser shows the table of models; none before MLflow took the first run."""
    lines = []
    for key, facts in _links(folder).items():
        experiment = facts.get("experiment", "") if isinstance(facts, dict) else ""
        if not re.fullmatch(r"\d{1,30}", str(experiment)):
            continue
        if key == LOCAL or key.startswith("sqlite:"):
            lines.append(f"mlflow ui --backend-store-uri {address(key, folder)}, then {link(UI, experiment, MODELS)}")
        elif (host := urlsplit(key)).scheme in ("http", "https"):
            place = f"{host.scheme}://{host.netloc.rpartition('@')[2]}{host.path.rstrip('/')}"
            lines.append(link(place, experiment, MODELS))
    return lines


def _key(folder: Path, uri: str) -> str:
    return LOCAL if uri == address(LOCAL, folder) else redact_address(uri)


def _entry(links: Mapping[str, Any], folder: Path, uri: str) -> Mapping[str, Any]:
    """What is known of an address; version 0.1.0 had the whole path of a local one."""
    found = links.get(_key(folder, uri), links.get(redact_address(uri)))
    return found if isinstance(found, dict) else {}


def _links(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(regular.content(folder / LINKS, LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
