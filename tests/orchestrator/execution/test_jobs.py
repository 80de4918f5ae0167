"""``ray job submit`` from a clean checkout: small package, right exit code and logs, stopped and submitted again without loss."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from envs.errors import RunFolderError
from orchestrator.storage.disk import check_data_path, durable_path
from orchestrator.storage.episode_store import episodes
from tests.conftest import ROOT
from tests.orchestrator import rayhead
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.execution.test_attempt import assert_stored_once, many_models

ROOMS = ["actors", "envs", "orchestrator", "proactive_sweep", "sweeps"]


@pytest.fixture(scope="module")
def head():
    with rayhead.head() as running:
        yield running


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """What a clone of this tree holds, without git."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def test_a_job_takes_the_rooms_of_the_package_and_no_other_folder(checkout):
    ignored = (ROOT / ".rayignore").read_text().splitlines()
    assert [
        path.name for path in sorted(checkout.iterdir()) if path.is_dir() and f"/{path.name}/" not in ignored
    ] == ROOMS


@pytest.mark.slow
@pytest.mark.long
def test_a_stopped_job_is_submitted_again_and_goes_on(head, checkout, demo_data, tmp_path, cli):
    short = tmp_path / "short.toml"
    short.write_text(
        f'# A test.\ndata = "{demo_data}"\nmodels = ["oracle", "uniform", "always-ask"]\n'
        'conditions = ["zero-shot", "hint", "random-proactive", "reference"]\ntracking = { uri = "none" }\n'
    )
    longer, planned, out = many_models(short, 150), 150 * 280, tmp_path / "run"
    client = submitter(head)
    entry = f"python -m orchestrator run {longer} --output {out}"
    first = client.submit_job(entrypoint=entry, runtime_env={"working_dir": str(checkout)}, submission_id="first")
    wait_for(lambda: has_ended(head, first) or any(out.glob("episodes/*.parquet")), 120)
    assert head.workers(), client.get_job_logs(first)
    client.stop_job(first)
    packages = list(head.folder.glob("session_2*/runtime_resources/working_dir_files/_ray_pkg_*/"))
    assert [sorted(path.name for path in package.iterdir() if path.is_dir()) for package in packages] == [ROOMS]
    assert sum(path.stat().st_size for path in packages[0].rglob("*")) < 20 * 2**20, "Ray takes 100 MiB"
    wait_for(lambda: has_ended(head, first), 60)
    wait_for(lambda: not head.workers(), 60)
    assert state(head, first).status == "STOPPED"
    stored_count = episodes(out).collect().height
    assert 0 < stored_count < planned, "the stop must fall into the middle for this test to mean anything"

    again = head.submit(folder=checkout, entry=("run", longer, "--output", out))
    assert again.returncode == 0, again.stdout
    assert f"{stored_count:,} finished" in again.stdout
    assert_stored_once(out, planned)
    assert cli.run("run", longer, "--output", tmp_path / "whole").returncode == 0
    assert (out / "results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()
    wait_for(lambda: not head.workers(), 60)


def test_only_a_jobs_own_copy_is_refused(tmp_path, monkeypatch):
    copy = tmp_path / "runtime_resources/working_dir_files/_ray_pkg_0123"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    with pytest.raises(RunFolderError, match="pass an --output that is absolute and on shared storage"):
        durable_path("outputs/demo")
    assert durable_path(str(tmp_path / "run")) == tmp_path / "run"
    with pytest.raises(
        RunFolderError, match="not in this job's copy of the checkout; name the data by an absolute path"
    ):
        check_data_path("outputs/demo-data")
    (copy / "mine").mkdir()
    check_data_path("mine"), check_data_path("/nowhere"), check_data_path("s3://sweeps/data")
    monkeypatch.chdir(tmp_path)
    assert durable_path("outputs/demo") == Path("outputs/demo")


def submitter(head):
    from ray.job_submission import JobSubmissionClient

    return JobSubmissionClient(head.jobs)


def state(head, job: str):
    return submitter(head).get_job_info(job)


def has_ended(head, job: str) -> bool:
    time.sleep(0.3)
    return state(head, job).status.is_terminal()
