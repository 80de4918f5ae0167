"""The runs of a run folder in MLflow (``mlflow.json``): for each address the mark, the experiment and the sweep's run.

The mark (``mlflow_run.MARK``) stays with a folder that is copied or moved, so it updates the same runs.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

from actors.text.redaction import redact_address
from envs import regular
from orchestrator.storage import safe_write
from orchestrator.tracking.client import LOCAL, resolve_uri
from orchestrator.tracking.experiment_page import MODELS, link

FILE = "mlflow.json"
MAX_BYTES = 1 << 20
UI = "http://127.0.0.1:5000"
"""The address at which ``mlflow ui`` listens by default."""


def read_mark(folder: Path, uri: str) -> str:
    """Return this folder's mark at this address; a new one on first use."""
    links = _links(folder)
    old = links.get(redact_address(uri), {})  # 0.1.0 stored the whole path of a local one
    mark = str(links.get(_key(folder, uri), old).get("mark"))
    return mark if re.fullmatch("[0-9a-f]{16}", mark) else token_hex(8)


def remember(folder: Path, uri: str, **facts: str) -> None:
    """Store the facts about this folder's runs at an address."""
    links = _links(folder)
    if links.get(key := _key(folder, uri)) != facts:
        safe_write.write(folder / FILE, (json.dumps({**links, key: facts}, indent=1) + "\n").encode())


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
