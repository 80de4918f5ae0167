"""Versions of installed packages, and the import path: without the working folder unless the run imports from it itself."""

import importlib.metadata
import os
import sys
from collections.abc import Iterable
from contextlib import suppress


def imports_working_folder() -> bool:
    """Return True if this process imports modules from its working folder: ``python -m``, a script there, a notebook."""
    working = os.path.abspath(os.curdir)
    return any(os.path.abspath(folder) == working for folder in sys.path)


def close_working_folder() -> None:
    """Have Python processes that this one starts ignore the working folder, unless this one imports from it."""
    if not imports_working_folder():
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # for Python's ``-c`` and ``-m``


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return package -> version for those of these packages that this process can import."""
    versions = {}
    for name in names:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
