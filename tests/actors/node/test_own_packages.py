"""The folder of a model's own packages: one installation, reused; a failure is one sentence and leaves nothing.

pip reads a folder of wheels made here, so no test needs a network.
"""

import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import time
import zipfile

import pytest
from filelock import FileLock

from actors.node import own_packages
from actors.worker import OwnPackages


def write_wheel(folder, name, version, requires=(), code=""):
    """Write the smallest wheel that pip installs: one module with its version and ``code``."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        f"{name}.py": f"__version__ = {version!r}\n{code}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_only_what_differs_is_installed_once_and_comes_first(wheels, tmp_path, monkeypatch):
    numpy = importlib.metadata.version("numpy")
    write_wheel(wheels, "tenacity", "99.1", [f"numpy=={numpy}", "sweep_helper"])
    write_wheel(wheels, "sweep_helper", "1.0")
    folder = tmp_path / "packages/abc"

    assert own_packages.install(["tenacity==99.1"], str(folder)) == ""
    assert sorted(json.loads((folder / own_packages.RECORD).read_text())) == ["sweep_helper==1.0", "tenacity==99.1"]
    assert not list(folder.parent.glob("abc-*")) and OwnPackages(str(folder)).check() is None
    code = "import importlib.metadata as m, numpy; print(m.version('tenacity'), m.version('numpy'))"
    seen = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    )
    assert seen.stdout.split() == ["99.1", numpy]

    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "absent"))
    assert own_packages.install(["tenacity==99.1"], str(folder)) == "", "the folder is there already"


def test_failure_is_one_sentence_with_requirement_installer_and_remedy(wheels, tmp_path):
    folder = tmp_path / "packages/abc"
    reason = own_packages.install(["sweep_helper==7.0"], str(folder))

    assert reason.startswith("sweep_helper==7.0 cannot be installed on ") and "\n" not in reason
    assert 'pip says "No matching distribution found for sweep_helper==7.0"; correct the requirements' in reason
    assert [path.name for path in folder.parent.iterdir()] == ["abc.lock"]
    with pytest.raises(ImportError, match="cannot be installed"):
        OwnPackages(str(folder), reason).check()
    with pytest.raises(RuntimeError, match="on another node"):
        OwnPackages(str(folder)).check()


def test_other_ray_than_the_drivers_is_refused(wheels, tmp_path):
    write_wheel(wheels, "ray", "99.0")
    write_wheel(wheels, "sweep_helper", "1.0", ["ray==99.0"])
    reason = own_packages.install(["sweep_helper"], str(tmp_path / "packages/abc"))
    assert "they need another ray version than the driver's" in reason


def test_unused_folders_are_deleted_when_another_is_installed(wheels, tmp_path):
    """A folder stays while a process holds it, or if a worker has started from it in the last 30 days."""
    write_wheel(wheels, "sweep_helper", "1.0")
    packages, aged = tmp_path / "packages", time.time() - 31 * 86_400
    for name, used_at in {"old": aged, "held": aged, "reused": aged, "recent": time.time()}.items():
        (packages / name).mkdir(parents=True)
        (packages / name / own_packages.RECORD).write_text("[]")
        os.utime(packages / name / own_packages.RECORD, (used_at, used_at))
    assert own_packages.install(["sweep_helper"], str(packages / "reused")) == ""
    code = (
        "import sys; from actors.node import own_packages; own_packages.hold(sys.argv[1]); print(flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(packages / "held")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        holder.stdout.readline()
        assert own_packages.install(["sweep_helper"], str(packages / "new")) == ""
        assert sorted(path.name for path in packages.iterdir() if path.is_dir()) == ["held", "new", "recent", "reused"]
    finally:
        holder.kill()
        holder.communicate()

    own_packages.delete_unused(packages)
    assert sorted(path.name for path in packages.iterdir() if path.is_dir()) == ["new", "recent", "reused"]


def write_installed(packages, **days):
    """Write complete folders that were last used so many days ago."""
    for name, age in days.items():
        (packages / name).mkdir(parents=True)
        record = packages / name / own_packages.RECORD
        record.write_text("[]")
        os.utime(record, (time.time() - age * 86_400,) * 2)


def list_folders(packages):
    return sorted(path.name for path in packages.iterdir() if path.is_dir())


def test_a_folder_that_is_held_in_use_or_being_installed_stays(tmp_path, monkeypatch):
    write_installed(tmp_path, old=30.01, recent=29.99, held=40, installing=40)
    descriptors, real_open = [], os.open
    monkeypatch.setattr(
        os, "open", lambda *args, **options: descriptors.append(real_open(*args, **options)) or descriptors[-1]
    )
    own_packages.hold(str(tmp_path / "held"))
    monkeypatch.undo()
    try:
        with FileLock(tmp_path / "installing.lock"):
            own_packages.delete_unused(tmp_path)
        assert list_folders(tmp_path) == ["held", "installing", "recent"]
    finally:
        os.close(*descriptors)
    own_packages.delete_unused(tmp_path)

    assert list_folders(tmp_path) == ["recent"]
    with pytest.raises(FileNotFoundError):
        own_packages.hold(str(tmp_path / "old"))


def test_what_a_killed_deletion_or_installation_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(own_packages, "PIP", ("-c", "raise SystemExit('ERROR: no such release')"))
    write_installed(tmp_path / "a/b", kept=1)
    (tmp_path / "a/b/old-unused/deep").mkdir(parents=True)
    (tmp_path / "a/b/new-1a2b/deep").mkdir(parents=True)
    own_packages.delete_unused(tmp_path / "a/b")
    assert list_folders(tmp_path / "a/b") == ["kept", "new-1a2b"]

    assert own_packages.install(["x==1"], str(tmp_path / "a/b/new")) and list_folders(tmp_path / "a/b") == ["kept"]
    assert own_packages.install(["x==1"], str(tmp_path / "a/b/kept")) == ""
    assert own_packages.install(["x==1"], str(tmp_path / "c/d/e/new")) and list_folders(tmp_path / "c/d/e") == []
    assert own_packages.is_complete(str(tmp_path / "a/b/kept")) and not own_packages.is_complete(
        str(tmp_path / "a/b/new")
    )


REMEDY = "; correct the requirements, or without internet set PIP_INDEX_URL or PIP_FIND_LINKS where Ray starts"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("ERROR: first\nERROR: last\nnote", f'pip says "last"{REMEDY}'),
        ("a warning\nno network\n", f'pip says "no network"{REMEDY}'),
        ("", f'pip says "nothing"{REMEDY}'),
        ("python: No module named pip", f"{sys.executable} has no pip; add it (`uv pip install pip`)"),
    ],
)
def test_the_last_error_of_pip_is_the_reason(tmp_path, monkeypatch, output, reason):
    monkeypatch.setattr(own_packages, "PIP", ("-c", f"import sys; sys.stderr.write({output!r}); sys.exit(1)"))

    assert own_packages.install(["x==1", "y"], str(tmp_path / "packages/abc")) == (
        f"x==1, y cannot be installed on {socket.gethostname()}: {reason}"
    )


def test_an_installation_that_takes_too_long_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(own_packages, "INSTALL_TIMEOUT_S", 0.01)
    monkeypatch.setattr(own_packages, "PIP", ("-c", "import time; time.sleep(60)"))
    reason = own_packages.install(["x==1", "y"], str(tmp_path / "abc"))

    assert (
        list_folders(tmp_path) == [] and reason == f"x==1, y took longer than 0 s to install on {socket.gethostname()}"
    )


def test_a_wait_for_another_installation_that_takes_too_long_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(own_packages, "INSTALL_TIMEOUT_S", 0.01)
    with FileLock(tmp_path / "abc.lock"):
        reason = own_packages.install(["x==1"], str(tmp_path / "abc"))

    assert reason == f"x==1 took longer than 0 s to install on {socket.gethostname()}"


def test_a_release_is_named_by_version_or_by_its_address():
    direct = {"is_direct": True, "download_info": {"url": "https://e.org/x.whl"}, "metadata": {"version": "1"}}

    assert own_packages._format_release("x", direct) == "x @ https://e.org/x.whl"
    assert own_packages._format_release("x", {**direct, "is_direct": False}) == "x==1"
