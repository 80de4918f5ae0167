"""The packages that a model requires: installed on the nodes of its workers before they start, first in their ``sys.path``."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.node import own_packages
from orchestrator.execution.cluster_view import node_hosts
from orchestrator.object_store.bucket import cache_root
from sweeps.spec import ModelSpec
from sweeps.values import digest

install_packages = ray.remote(num_cpus=0, max_retries=0)(own_packages.install)
"""Installs a model's own packages on the node that it runs on."""
log = logging.getLogger(__name__)


def worker_options(models: Sequence[ModelSpec]) -> dict[str, Any]:
    """Return the Ray options of an actor that plays these models: the variable for its packages."""
    if not (folder := packages_folder(models)):
        return {}
    return {"runtime_env": {"env_vars": {"PYTHONPATH": os.pathsep.join((str(folder), "${PYTHONPATH}"))}}}


def packages_arguments(models: Sequence[ModelSpec], node: str = "") -> list[Any]:
    """Start the installation on the worker's node, or on all nodes if ``node`` is empty.

    Returns the last arguments of the actor: the folder, and results for which the start of its process waits.
    """
    if not (folder := packages_folder(models)):
        return []
    log.info("%s waits for %s in %s", models[0].name, ", ".join(_requirements(models)), folder)
    strategies = [NodeAffinitySchedulingStrategy(name, soft=False) for name in ([node] if node else node_hosts())]
    tasks = [install_packages.options(scheduling_strategy=strategy) for strategy in strategies]
    return [str(folder), *(task.remote(_requirements(models), str(folder)) for task in tasks)]


def packages_folder(models: Sequence[ModelSpec]) -> Path | None:
    """Return the folder of the packages on every node; None if the models require no packages.

    Its name is a hash of the requirements and of the driver's packages.
    """
    if not (requirements := _requirements(models)):
        return None
    return cache_root() / "packages" / digest(json.dumps([requirements, _installed()]), 12)


def _requirements(models: Sequence[ModelSpec]) -> list[str]:
    return sorted({requirement for model in models for requirement in model.requirements})


@cache
def _installed() -> list[str]:
    """Return the driver's Python and packages: which packages a requirement still has to install depends on them."""
    releases = {f"{package.metadata['Name']}=={package.version}" for package in distributions()}
    return [f"python {sys.version}", *sorted(releases)]
