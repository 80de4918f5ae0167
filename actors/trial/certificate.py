"""Certificates: SHA-256 of what one model receives for fixed requests, beside the same of the package's own call."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from sweeps.model import LOCAL

NOT_IN_VLLM = frozenset(
    {"attention_mask", "mm_token_type_ids", "token_type_ids", "batch_num_images", "image_sizes", "pixel_attention_mask"}
)
"""Tensors of a processor that vLLM may leave out, because they follow from the ids and the pictures."""
MAX_LISTED = 4


class CertifiedRequest(BaseModel, frozen=True):
    """One request of a certificate; a later version may add fields."""

    sample: int
    pictures: int = 0
    engine: Mapping[str, str] = Field(default_factory=dict)
    """Name of each tensor that the engine makes -> its SHA-256; for a service only ``request``."""
    package: Mapping[str, str] = Field(default_factory=dict)
    """The same for the package's call; empty if the package's call could not be made."""
    decoding: Mapping[str, Any] = Field(default_factory=dict)
    repeats_start: bool = False
    """True if the package's call writes the start token twice, but the engine once."""
    error: str = ""
    """Why the engine or the package's call failed; empty if neither did."""
    overflows: bool = False
    """True if the request is too long for the model, so that nothing is sent."""

    def differing(self, backend: str) -> list[str]:
        """Return the names of the tensors that differ from the package's call."""
        optional = NOT_IN_VLLM - self.engine.keys() if backend == "vllm" else frozenset()
        return sorted(name for name in self.package.keys() - optional if self.engine.get(name) != self.package[name])


class Certificate(BaseModel, frozen=True):
    """What one model receives on one machine, with one set of packages."""

    source: str
    backend: str
    weights: str = ""
    """``actors.engine.weights.weights_identity``."""
    dtype: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    """Installed packages -> version."""
    requirements: tuple[str, ...] = ()
    """The packages that the model's entry asks for, which may differ from those of the run's other models."""
    files: Mapping[str, str] = Field(default_factory=dict)
    """Settings beside the weights (``processor_config.json`` ...) -> SHA-256."""
    requests: dict[str, CertifiedRequest] = Field(default_factory=dict)
    """Key of a cell without its model (``ROD/hint``) -> the request of that cell."""
    reason: str = ""
    """Why requests are missing; empty if none are missing."""

    @property
    def missing(self) -> str:
        """Return why the certificate is incomplete; empty if it is complete."""
        sent = {cell: request for cell, request in self.requests.items() if not request.overflows}
        errors = [f"{cell}: {request.error}" for cell, request in sent.items() if request.error]
        unsent = "every request is too long for the model" if self.requests else "no request could be posed"
        return self.reason or (errors[0] if errors else "" if sent else unsent)

    @property
    def differences(self) -> dict[str, list[str]]:
        """Return cell -> names of its tensors that differ from the package's call."""
        rows = {cell: request.differing(self.backend) for cell, request in self.requests.items()}
        return {cell: names for cell, names in rows.items() if names}

    @property
    def status(self) -> str:
        """Return ``equal``, ``unequal``, ``incomplete``, or ``request only`` for a service."""
        if self.differences:
            return "unequal"
        if self.missing:
            return "incomplete"
        return "equal" if self.backend in LOCAL else "request only"

    def describe(self) -> str:
        """Return the outcome as one sentence, without the model's name."""
        too_long = sum(request.overflows for request in self.requests.values())
        count = len(self.requests) - too_long
        cells = "1 request" if count == 1 else f"{count} requests"
        if changed := self.differences:
            cell, names = next(iter(changed.items()))
            return f"{len(changed)} of {cells} differ from the package's call, first {', '.join(names[:MAX_LISTED])} of {cell}"
        if self.missing:
            return f"not complete: {self.missing}"
        if self.backend not in LOCAL:
            return f"behind a service: the bytes of {cells} are recorded, not what the model makes of them"
        note = f" ({too_long} more are too long for the model)" if too_long else ""
        return f"ids and every tensor of {cells} equal the package's call{note}"
