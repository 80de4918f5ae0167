"""A run folder on a read-only file system is read, and what would write there says so in one sentence."""

import json
import shutil
import subprocess
import sys

import pytest

from orchestrator.storage.status import write_status
from tests.conftest import ROOT
from tests.orchestrator.report import runs

MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
TYPED = """
import json, sys
from typer.testing import CliRunner
from orchestrator.cli.main import app
for line in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, line)
    fault = None if done.exception is None or isinstance(done.exception, SystemExit) else repr(done.exception)
    print(json.dumps([done.exit_code, fault, done.output]))
"""


def read_only(folder, *command):
    """Run the command with this folder mounted read-only, in its own mount namespace; None where that is not permitted."""
    for namespace in (["-m"], ["-rm"]):
        unshare = ["unshare", *namespace, "bash", "-c"]
        if (
            shutil.which("unshare")
            and not subprocess.run([*unshare, MOUNTED, folder, "true"], capture_output=True).returncode
        ):
            return subprocess.run([*unshare, MOUNTED, folder, *command], capture_output=True, text=True, cwd=ROOT)
    return None


def test_a_read_only_run_folder(tmp_path, demo_data):
    folder, file = tmp_path / "run", tmp_path / "s.toml"
    file.write_text(
        f'# A test.\ndata = "{demo_data}"\nmodels = ["uniform"]\nconditions = ["hint"]\ntracking = {{ uri = "none" }}\n'
    )
    runs.play_sweep(folder, runs.sweep(demo_data, ["uniform"], ["hint"]))
    write_status(folder, [], finished=True)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lines = [["status", folder], ["report", folder, "--brief"], ["report", folder], ["run", file, "--output", folder]]
    done = read_only(folder, sys.executable, "-c", TYPED, json.dumps(lines, default=str))
    if done is None:
        pytest.skip("this user may make no mount namespace")
    outcomes = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]

    ends = [(code, fault) for code, fault, _ in outcomes]
    assert ends == [(code, None) for code in (0, 0, 2, 2)], (outcomes, done.stderr)
    for _, _, output in outcomes[2:]:
        assert "Read-only file system" in output.splitlines()[-1] and str(folder) in output.splitlines()[-1]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
