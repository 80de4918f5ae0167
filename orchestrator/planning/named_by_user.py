"""Checks that the sweep stored in a run folder contacts and runs only what the user has named.

The folder may come from someone else, so every command that acts on its sweep passes these checks. Users name services, key
variables, data and models on the command line, in their own sweep file (named after the folder), or in the environment.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from orchestrator.datasets.sources import parse_address
from orchestrator.datasets.staging import has_lines
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from sweeps.checkpoint import checkpoint_folder
from sweeps.model import Endpoint
from sweeps.registry import describe_code, judges, registry
from sweeps.spec import ModelSpec, Sweep
from sweeps.sweep_file import RESOLVED
from sweeps.values import host_of

THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
LOCAL_SERVICE = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?(/[\w./-]*)?")
"""Addresses of services on this machine; an address that another parser could read as another host does not match."""
DEFAULT_KEY = Endpoint().key_env
TRUSTED_CODE = "model.trust_remote_code=true"
"""The override (``judge --set``) with which a user allows a judge's code to run."""


def check_named(
    folder: Path,
    sweep: Sweep,
    models: Sequence[ModelSpec],
    own: Sweep | None = None,
    typed: Sequence[str] = (),
    pictures: bool = True,
) -> None:
    """Raise RunFolderError if ``models``, or the data of a folder's sweep, use anything that the user has not named.

    Users name things in a sweep file (``own``) or type them (``typed``: KEY=VALUE). ``pictures`` is False for models of text.
    """
    known = [*(own.models_and_judge if own else ()), *registry().values(), *judges().values()]
    unnamed = [reason for model in models for reason in _unnamed(model, known, typed)]
    theirs, ours = parse_address(sweep.data), parse_address(own.data) if own else None
    is_named = theirs and ours and replace(theirs, revision="") == replace(ours, revision="")  # commits may differ
    if not has_lines(sweep, pictures) and not is_named:
        unnamed.append(f"the data {redact_address(sweep.data)}")
    if unnamed:
        names = ", ".join(dict.fromkeys(unnamed))
        remedy = (
            f"read its sweep, then add `{folder / RESOLVED}`, or your own sweep file that names them, to the command"
        )
        raise RunFolderError(f"{folder} names {names}, which you have not named; {remedy}")


def plan_from_folder(folder: Path, sweep: Sweep) -> Plan:
    """Build the plan of a folder's sweep without a network; raises RunFolderError if its data would be downloaded."""
    if not has_lines(sweep):
        remedy = "`plan` with your own sweep file fetches them, or add --data DIR"
        raise RunFolderError(
            f"{folder} names the data {redact_address(sweep.data)}, which are not on this machine; {remedy}"
        )
    return build_plan(sweep)


def check_tracking(folder: Path, uri: str) -> None:
    """Raise RunFolderError if the tracking address of a folder's sweep is neither on this machine nor in MLFLOW_TRACKING_URI.

    MLflow would send the user's login to that address.
    """
    if uri != os.environ.get("MLFLOW_TRACKING_URI") and host_of(uri) not in THIS_MACHINE:
        address = redact_address(uri)
        send = f"add `--tracking-uri {address}` to send the run and your MLflow login there"
        keep = "`--tracking-uri sqlite` for a file in the folder"
        raise RunFolderError(f"{folder} names the tracking address {address}; {send}, or {keep}")


def _unnamed(model: ModelSpec, known: Sequence[ModelSpec], typed: Sequence[str]) -> Iterator[str]:
    """Yield what a model would contact or run although neither the user nor this package names it."""
    if model.backend == "openai" and not _is_named_service(model.endpoint, known, typed):
        key = f" (key in {model.endpoint.key_env})" if model.endpoint.key_env else ""
        yield f"the service {redact_address(model.endpoint.base_url) or 'of OpenAI'}{key}"
    if not model.is_local:
        return
    by_user = any(override.startswith("model.requirements=") for override in typed)
    if model.requirements and not by_user and model.requirements not in {other.requirements for other in known}:
        yield f"the packages {', '.join(model.requirements)} of {model.name}"
    trusts_code = bool(describe_code(model)) and TRUSTED_CODE in typed
    if describe_code(model) and not trusts_code and _same_code(model) not in map(_same_code, known):
        yield f"the code or unsafe options of {model.name}"
    elif not (trusts_code or model.source.startswith("builtin:") or _are_named_weights(model, known, typed)):
        yield f"the weights {' of '.join(filter(None, _weights(model)))}"


def _are_named_weights(model: ModelSpec, known: Sequence[ModelSpec], typed: Sequence[str]) -> bool:
    """Return True if these weights may be loaded: named as they are, or of this machine without adapter and own cache."""
    if _weights(model) in map(_weights, known):
        return True
    adapter, cache = _weights(model)[:2]
    is_here = f"model.source={model.source}" in typed or checkpoint_folder(model) is not None
    return is_here and not adapter and not cache


def _weights(model: ModelSpec) -> tuple[str, str, str, str]:
    """Return what decides which weights a model loads: adapter, cache, revision and source."""
    return model.lora, str(model.options.get("download_dir", "")), model.revision, model.source


def _is_named_service(endpoint: Endpoint, known: Sequence[ModelSpec], typed: Sequence[str]) -> bool:
    """Return True if a service may be sent requests with the key in its variable ``key_env``."""
    pairs = {(model.endpoint.base_url, model.endpoint.key_env) for model in known if model.backend == "openai"}
    if (endpoint.base_url, endpoint.key_env) in pairs:
        return True
    local = LOCAL_SERVICE.fullmatch(endpoint.base_url) is not None
    address = local or not endpoint.base_url or endpoint.base_url == os.environ.get("OPENAI_BASE_URL")
    address = address or f"model.endpoint.base_url={endpoint.base_url}" in typed
    return address and (endpoint.key_env in ("", DEFAULT_KEY) or f"model.endpoint.key_env={endpoint.key_env}" in typed)


def _same_code(model: ModelSpec) -> tuple[object, ...]:
    """Return the fields that decide which code a model runs."""
    return (model.source, model.revision, model.backend, model.trust_remote_code, model.options, model.processor)
