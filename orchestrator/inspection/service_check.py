"""Problems of a service's entry: its key, its address, and the models that it serves."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from envs.json_text import parse_json
from sweeps.checkpoint import MAX_FILE_BYTES
from sweeps.spec import ModelSpec

LISTED = 3
"""Number of served models that a fault lists."""
TIMEOUT_S = 5
UNAUTHORIZED = 401
UNKNOWN_MODEL = (400, 404)
"""Status codes with which servers refuse a model that they do not know."""


def key_fault(model: ModelSpec) -> str:
    """Return the fault of a service's key or address, without a request; empty if none."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    key = os.environ.get(variable, "")
    if address and not address.lower().startswith(("http://", "https://")):
        return f"no: base_url {address} must start with http:// or https://"
    if variable and not key:
        remedy = ': set it, or key_env = "" in the entry if the service needs no key' if address else ""
        return f"no: {variable} is not set{remedy}"
    if not (key.isascii() and key.isprintable()):
        return f"no: {variable} has a line break or a character that no key has"
    return ""


def service_cell(model: ModelSpec) -> str:
    """Return whether a service has the model, for the column ``source`` of ``models check``; OpenAI gets no request."""
    variable, address = model.endpoint.key_env, model.endpoint.base_url
    if fault := key_fault(model):
        return fault
    if not address:
        return f"ok: {variable} is set (no request was sent)"
    try:
        served = _served_models(model)
    except urllib.error.HTTPError as problem:
        verdict = "no" if problem.code == UNAUTHORIZED else "unknown"
        return f"{verdict}: {address} answers {problem.code} when asked for its models"
    except (ValueError, AttributeError, TypeError):
        return f"unknown: {address} lists no models"
    except (OSError, HTTPException) as problem:
        return f"no: {address} does not answer ({getattr(problem, 'reason', problem)}); start the service, or correct base_url"
    if model.source in served:
        return "ok: it answers"
    if not served or _answers_as(model):
        return f"unknown: {address} does not list {model.source}"
    more = f" and {len(served) - LISTED} more" if len(served) > LISTED else ""
    return f"no: it serves {', '.join(served[:LISTED])}{more}, not {model.source}; correct source"


def _served_models(model: ModelSpec) -> list[str]:
    """Return the names that a service lists; raises OSError, HTTPException, or an error of an answer of another form."""
    with _open(model, "models") as response:
        entries = parse_json(response.read(MAX_FILE_BYTES)).get("data", ())
        return [str(entry.get("id")).removeprefix("models/") for entry in entries]  # Google's prefix


def _answers_as(model: ModelSpec) -> bool:
    """Return True unless the service refuses one short question to this model; many servers list other names than they take."""
    question = {"model": model.source, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    try:
        with _open(model, "chat/completions", question):
            return True
    except urllib.error.HTTPError as problem:
        return problem.code not in UNKNOWN_MODEL
    except (OSError, HTTPException):
        return True


def _open(model: ModelSpec, path: str, question: Mapping[str, Any] | None = None) -> Any:
    """Send a request to a service, with its key."""
    key = os.environ.get(model.endpoint.key_env) or "none"
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(f"{model.endpoint.base_url.rstrip('/')}/{path}", data, headers)
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)
