"""``track`` sends a run and the user's MLflow login only where the user, or this machine, says."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.storage.lock import RunFolderError
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
def test_the_folders_own_file_and_this_machine_need_no_naming(uri: str) -> None:
    assert _stored_address(Path("run"), uri) == uri
