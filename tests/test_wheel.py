"""What is published works away from the clone: the source archive is whole, and the wheel built from it plays a sweep."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tracked_files():
    """Return the files of the repository, new ones too, as git lists them; skip outside a clone."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("the list of files comes from git")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ} | environment,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build_archive(hook, source, into):
    """Build an archive with setuptools as pip would; return its path."""
    code = f"from setuptools import build_meta; import sys; print(build_meta.{hook}(sys.argv[1]))"
    return into / run(sys.executable, "-c", code, into, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The source archive, unpacked, made from a copy of the tracked files alone."""
    clone, into = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("sdist")
    for name in tracked_files():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    path = build_archive("build_sdist", clone, into)
    with tarfile.open(path) as packed:
        packed.extractall(into, filter="data")
    return path.with_name(path.name.removesuffix(".tar.gz"))


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    return build_archive("build_wheel", archive, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def commands_folder(wheel, tmp_path_factory):
    """The folder of commands of a fresh environment that has the wheel, and this one's packages but not its checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv/bin/python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    folders = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    # with the .pth files of these folders, which lead to the extras of the checkout
    (own / "packages.pth").write_text(f"import site; list(map(site.addsitedir, {list(folders)}))\n")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel, cwd=folder)
    return folder / "venv/bin"


def test_the_source_archive_holds_every_file_of_the_repository(archive):
    names = {path.relative_to(archive).as_posix() for path in archive.rglob("*") if path.is_file()}

    assert set(tracked_files()) - names == set()
    assert "LICENSE" in names and "sweeps/starter.toml" in names


def test_the_wheel_has_the_template_and_no_extra(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()

    assert "orchestrator/cli/main.py" in names and not [name for name in names if "proactive_demo" in name]
    template = {name.removeprefix("proactive_sweep/template/") for name in names if "proactive_sweep/template/" in name}
    assert {"README.md", "pyproject.toml", "sweep.toml", "proactive_dark/scenario.py", "tests/test_dark.py"} <= template


@pytest.mark.slow
@pytest.mark.long
def test_the_wheel_plays_a_sweep_away_from_the_clone(commands_folder, tmp_path):
    def command(line):
        name, *arguments = line.split()
        return run(commands_folder / name, *arguments, cwd=tmp_path, MLFLOW_TRACKING_URI="none")

    where = run(commands_folder / "python", "-c", "import orchestrator; print(orchestrator.__file__)", cwd=tmp_path)
    assert where.startswith(str(commands_folder.parent)), "the wheel's modules, not the checkout's"

    output = command("proactive-sweep init mine/first.toml")
    command_lines = [
        line.strip().partition("   ")[0] for line in output.splitlines() if line.startswith("  proactive-sweep")
    ]
    assert [line.split()[1] for line in command_lines] == ["data", "plan", "run", "report"]
    outputs = [command(line) for line in command_lines]

    assert "56 cells, 560 episodes, 0 done" in outputs[1]
    assert "oracle" in outputs[2] and (tmp_path / "outputs/first/report.html").is_file()
    assert (tmp_path / "mine/demo-data/QuickDraw_preprocessed.jsonl").is_file(), "the data lie beside the sweep file"
    shipped = json.loads(command("proactive-sweep plan baselines --set data=mine/demo-data --json"))
    assert len(shipped["cells"]) == 168
