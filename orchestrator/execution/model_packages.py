"""The packages that a model requires: installed on the nodes of its workers before they start, first in their ``sys.path``."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import distributions
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


def start_installation(models: Sequence[ModelSpec], node: str) -> tuple[dict[str, Any], list[Any]]:
    """Start the installation on the node of a worker that plays these models, or on all nodes if ``node`` is empty.

    Returns Ray's options of its actor (the variable for the packages), and the actor's last arguments: the folder, whose name
    is a hash of the requirements and of the driver's packages, and results for which the start of its process waits.
    """
    requirements = sorted({requirement for model in models for requirement in model.requirements})
    if not requirements:
        return {}, []
    folder = str(cache_root() / "packages" / digest(json.dumps([requirements, _installed()]), 12))
    log.info("%s waits for %s in %s", models[0].name, ", ".join(requirements), folder)
    strategies = [NodeAffinitySchedulingStrategy(name, soft=False) for name in ([node] if node else node_hosts())]
    tasks = [install_packages.options(scheduling_strategy=strategy) for strategy in strategies]
    variables = {"PYTHONPATH": os.pathsep.join((folder, "${PYTHONPATH}"))}
    return {"runtime_env": {"env_vars": variables}}, [folder, *(task.remote(requirements, folder) for task in tasks)]


@cache
def _installed() -> list[str]:
    """Return the driver's Python and packages: which packages a requirement still has to install depends on them."""
    releases = {f"{package.metadata['Name']}=={package.version}" for package in distributions()}
    return [f"python {sys.version}", *sorted(releases)]
