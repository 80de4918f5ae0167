"""``track`` sends a run and the MLflow login only to addresses that the user named or that are on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from envs.errors import RunFolderError
from orchestrator.tracking.mlflow.rebuild import _stored_address


@pytest.mark.parametrize(
    "uri", ["https://evil.example/mlflow", "http://10.0.0.1:5000", "databricks", "sqlite:////srv/mlflow.db"]
)
def test_an_address_that_the_user_did_not_name_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(RunFolderError, match=r"names the tracking address .*; add `--tracking-uri "):
        _stored_address(Path("run"), uri)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert _stored_address(Path("run"), uri) == uri


@pytest.mark.parametrize("uri", ["sqlite", "http://127.0.0.1:5000", "http://localhost:5000", "http://[::1]:5000"])
def test_own_file_and_local_addresses_need_no_option(uri: str) -> None:
    assert _stored_address(Path("run"), uri) == uri
