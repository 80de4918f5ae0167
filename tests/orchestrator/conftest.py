"""A bucket of its own for each test that asks for one, on one S3 service a session; and an empty MLflow store to copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.object_store import uploader
from orchestrator.object_store.bucket import CACHE
from tests.orchestrator import buckets, mlflow_stores


@pytest.fixture(scope="session")
def session_service():
    with buckets.service() as running:
        yield running


@pytest.fixture
def service(session_service, monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(uploader, "ROUND_INTERVAL_S", 0.5)
    yield session_service
    session_service.faults.clear()


@pytest.fixture
def url(service, tmp_path) -> str:
    return f"s3://{buckets.BUCKET}/{tmp_path.name}"


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with its tables and nothing in them."""
    return mlflow_stores.store(tmp_path_factory.mktemp("store"))
