"""A run folder with an empty store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path, empty) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    shutil.copy(empty, path / "mlflow.db")
    return path
