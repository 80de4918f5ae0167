"""Problems of a service's entry: its key, its address, and the models that it serves."""

import os
import urllib.error
import urllib.request
from http.client import HTTPException

from envs.json_text import parse_json
from sweeps.checkpoint import MAX_FILE_BYTES
from sweeps.spec import ModelSpec

LISTED = 3
"""Number of served models that a fault lists."""


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
    key = os.environ.get(variable) or "none"
    request = urllib.request.Request(f"{address.rstrip('/')}/models", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            entries = parse_json(response.read(MAX_FILE_BYTES)).get("data", ())
            served = [str(entry.get("id")).removeprefix("models/") for entry in entries]  # Google's prefix
    except urllib.error.HTTPError as problem:
        return f"no: {address} answers {problem.code}"
    except (OSError, ValueError, AttributeError, TypeError, HTTPException) as problem:
        return f"no: {address} does not answer ({getattr(problem, 'reason', problem)})"
    if model.source in served:
        return "ok: it answers"
    more = f" and {len(served) - LISTED} more" if len(served) > LISTED else ""
    return f"no: it serves {', '.join(served[:LISTED]) or 'no model'}{more}, not {model.source}"
