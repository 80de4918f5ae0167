"""The runs of a run folder in MLflow (``mlflow.json``): for each address the mark, the experiment and the sweep's run.

The mark (``mlflow_run.MARK``) stays with a folder of the same sweep that is copied or moved, so it updates the same runs.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from actors.text.redaction import redact_address
from envs import regular
from orchestrator.storage import safe_write
from orchestrator.tracking.experiment_page import MODELS, link
from orchestrator.tracking.local_store import LOCAL, resolve_uri
from sweeps.values import digest

FILE = "mlflow.json"
MAX_BYTES = 1 << 20
UI = "http://127.0.0.1:5000"
"""The address at which ``mlflow ui`` listens by default."""


def mark(folder: Path, uri: str, sweep: str) -> str:
    """Return this folder's mark at this address, created on first use.

    ``sweep`` identifies the sweep (``identify_sweep``): a copy of the folder that holds another sweep gets its own mark.
    """
    place = digest(str(folder.resolve()))  # without the host: a shared folder resumes on any node
    links, key = _links(folder), _key(folder, uri)
    stored = links.get(key, links.get(redact_address(uri), {}))  # 0.1.0 stored a local address under its whole path
    is_own = stored.get("place") == place or stored.get("sweep") == sweep
    stored_mark = str(stored.get("mark")) if is_own else ""
    own_mark = stored_mark if re.fullmatch("[0-9a-f]{16}", stored_mark) else token_hex(8)
    links[key] = (stored if stored_mark else {}) | {"mark": own_mark, "place": place, "sweep": sweep}
    _write(folder, links)
    return own_mark


def remember(folder: Path, uri: str, **facts: str) -> None:
    """Store facts about this folder's runs at an address."""
    links, key = _links(folder), _key(folder, uri)
    _write(folder, {**links, key: {**links.get(key, {}), **facts}})


def identify_sweep(name: str, params: Mapping[str, str]) -> str:
    """Return a digest of a sweep's name and parameters."""
    return digest(json.dumps([name, sorted((key, text) for key, text in params.items() if text != "None")]))


def pages(folder: Path) -> Iterator[str]:
    """Yield one line per address: how to open the charts of models in a browser; nothing before MLflow has a run."""
    for key, entry in _links(folder).items():
        experiment = str(entry.get("experiment", ""))
        if not re.fullmatch(r"\d{1,30}", experiment):
            continue
        if key == LOCAL or key.startswith("sqlite:"):
            database = shlex.quote(resolve_uri(key, folder))
            yield f"mlflow ui --backend-store-uri {database}, then {link(UI, experiment, MODELS)}"
        elif (parts := urlsplit(key)).scheme in ("http", "https"):
            server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
            yield link(server, experiment, MODELS)


def _key(folder: Path, uri: str) -> str:
    return LOCAL if uri == resolve_uri(LOCAL, folder) else redact_address(uri)


def _links(folder: Path) -> dict[str, dict[str, Any]]:
    """Return address -> facts; empty if the file is missing or damaged."""
    try:
        links = json.loads(regular.read_bytes(folder / FILE, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = links.items() if isinstance(links, dict) else ()
    return {key: entry for key, entry in entries if isinstance(entry, dict)}


def _write(folder: Path, links: Mapping[str, Any]) -> None:
    if links != _links(folder):
        safe_write.write(folder / FILE, (json.dumps(links, indent=1) + "\n").encode())
