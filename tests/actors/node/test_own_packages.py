"""The folder of a model's own packages: one installation, reused; a failure is one sentence and leaves nothing.

pip reads a folder of wheels made here, so no test needs a network.
"""

import importlib.metadata
import subprocess
import sys
import venv
import zipfile

import pytest

from actors.node import own_packages


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
    names = [path.name for path in folder.glob("*.dist-info")]
    assert sorted(names) == ["sweep_helper-1.0.dist-info", "tenacity-99.1.dist-info"]
    assert sorted(path.name for path in folder.parent.iterdir()) == ["abc", "abc.lock"]
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


def test_an_environment_without_pip_is_told_how_to_get_it(tmp_path, monkeypatch):
    venv.create(tmp_path / "bare")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare/bin/python"))
    reason = own_packages.install(["sweep_helper==7.0"], str(tmp_path / "packages/abc"))
    assert reason.endswith("bare/bin/python has no pip; add it, for example by uv pip install pip")
