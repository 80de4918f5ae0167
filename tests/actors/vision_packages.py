"""torchvision, num2words and qwen_vl_utils in a folder of their own, for processors and the package, on machines without CUDA.

The wheels of torchvision on PyPI are built for CUDA: beside a CPU torch their C operations cannot be loaded, and only what
registers these fails. Processors use none of them. The folder goes on PYTHONPATH of a subprocess, never into the environment,
because vLLM for CPUs wants torchvision absent.
"""

import importlib.metadata
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

TORCHVISION = {"2.13": "0.28.0", "2.12": "0.27.0", "2.11": "0.26.0"}
"""Release of torch -> the release of torchvision that belongs to it."""
NEED_C = ("    _autograd_registrations,\n", "    _meta_registrations,\n")
"""What ``torchvision/__init__.py`` imports that needs its C operations."""


def fetch_packages(folder: Path) -> Path:
    """Fill a folder with what this environment lacks; empty where nothing is missing. Raises RuntimeError with the reason."""
    wheels = folder / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("torchvision") is None and not (folder / "torchvision").exists():
        torch = importlib.metadata.version("torch").rpartition(".")[0]
        if torch not in TORCHVISION:
            raise RuntimeError(f"no torchvision is known for torch {torch}")
        _unpacked(f"torchvision=={TORCHVISION[torch]}", wheels, folder)
        _without_c(folder / "torchvision" / "__init__.py")
    for name, release in (("num2words", "0.5.14"), ("qwen_vl_utils", "0.0.14")):
        if importlib.util.find_spec(name) is None and not (folder / name).exists():
            _unpacked(f"{name}=={release}", wheels, folder)
    return folder


def _unpacked(package: str, wheels: Path, folder: Path) -> None:
    options = ("download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest")
    command = [sys.executable, "-m", "pip", *options, str(wheels)]
    done = subprocess.run([*command, package], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{package} cannot be downloaded here")
    with zipfile.ZipFile(next(wheels.glob(f"{package.partition('=')[0]}-*.whl"))) as wheel:
        wheel.extractall(folder)


def _without_c(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    for line in NEED_C:
        text = text.replace(line, "")
    module.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    print(fetch_packages(Path(sys.argv[1])))
