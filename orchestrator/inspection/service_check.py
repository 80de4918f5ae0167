"""Problems of a service's entry: its key, its address, and the models that it serves."""

import json
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

from actors.text.printable import list_first
from actors.text.proxies import describe_proxy
from envs.regular import parse_json
from sweeps.checkpoint import MAX_FILE_BYTES
from sweeps.spec import ModelSpec

TIMEOUT_S = 5


def service_cell(model: ModelSpec) -> str:
    """Return whether a service has the model, for the column ``source`` of ``models check``; OpenAI gets no request."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    key = os.environ.get(variable, "")
    if address and not address.lower().startswith(("http://", "https://")):
        return f"no: base_url {address} must start with http:// or https://"
    if variable and not key:
        remedy = ': set it, or key_env = "" in the entry if the service needs no key' if address else ""
        return f"no: {variable} is not set{remedy}"
    if not (key.isascii() and key.isprintable()):
        return f"no: {variable} has a line break or a character that no key has"
    return _served_cell(model, address) if address else f"ok: {variable} is set (no request was sent)"


def _served_cell(model: ModelSpec, address: str) -> str:
    try:
        entries = _ask(model, "models").get("data", ())
        served = [str(entry.get("id")).removeprefix("models/") for entry in entries]  # Google's prefix
    except urllib.error.HTTPError as problem:
        verdict = "no" if problem.code == 401 else "unknown"
        return f"{verdict}: {address} answers {problem.code} when asked for its models"
    except (ValueError, AttributeError, TypeError):
        return f"unknown: {address} lists no models"
    except (OSError, HTTPException) as problem:
        where, why = f"{address} does not answer{describe_proxy(address)}", getattr(problem, "reason", problem)
        return f"no: {where} ({why}); start the service, or correct base_url"
    if model.source in served:
        return "ok: it answers"
    if served and _refuses(model):
        return f"no: it serves {list_first(served)}, not {model.source}; correct source"
    return f"unknown: {address} does not list {model.source}"


def _refuses(model: ModelSpec) -> bool:
    """Return True if the service refuses one short question to this model; many servers list other names than they take."""
    question = {"model": model.source, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    try:
        _ask(model, "chat/completions", json.dumps(question).encode())
    except (OSError, HTTPException, ValueError) as problem:
        return getattr(problem, "code", 0) in (400, 404)
    return False


def _ask(model: ModelSpec, path: str, question: bytes | None = None) -> Any:
    """Return a service's answer to a request with its key; raises OSError, HTTPException, or ValueError for other than JSON."""
    key = os.environ.get(model.endpoint.key_env) or "none"
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{model.endpoint.base_url.rstrip('/')}/{path}", question, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        return parse_json(response.read(MAX_FILE_BYTES))
