"""Certificates (``certificates.json``): what each model of a run receives, compared with the package's own call.

A certificate holds hashes, so two runs on two machines can be compared without their pictures and weights.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from actors.engine.weights import same_weights
from actors.text.printable import list_first
from actors.trial.certify import InputReport, RecordedInput
from envs.json_text import parse_json
from orchestrator.storage import checksums
from orchestrator.storage.loaded_weights import shorten
from orchestrator.storage.run_folder import to_json
from sweeps.requirements import requirement_names
from sweeps.spec import ModelSpec

FILE = "certificates.json"
NOT_IN_VLLM = frozenset({"attention_mask", "mm_token_type_ids", "token_type_ids", "batch_num_images", "image_sizes"})
"""Tensors of a processor that vLLM may leave out, because they follow from the ids and the pictures."""
ENGINES = ("vllm", "transformers")
"""Backends with a checkpoint on the worker's machine."""
SUMMARY = {
    "equal": "every tensor equals the package's call",
    "unequal": "differs from the package's call",
    "incomplete": "incomplete certificate",
    "request only": "only the bytes sent to the service are recorded",
}
"""Status -> its description in a report."""
MAX_LISTED = 4
"""Differences that a sentence lists: for another checkpoint folder, files, path and hash come before the first tensor."""


class CertifiedRequest(BaseModel):
    """One request of a certificate; a later version may add fields."""

    model_config = ConfigDict(frozen=True)
    sample: int
    pictures: int = 0
    engine: dict[str, str] = Field(default_factory=dict)
    """Name of each tensor that the engine makes -> its SHA-256; for a service only ``request``."""
    package: dict[str, str] = Field(default_factory=dict)
    """The same for the package's call; empty if the package's call could not be made."""
    decoding: dict[str, Any] = Field(default_factory=dict)
    repeats_start: bool = False
    raw_pixels: bool = False
    error: str = ""
    overflows: bool = False
    """True if the request is too long for the model, so that nothing is sent."""

    def differing(self, backend: str) -> list[str]:
        """Return the names of the tensors that differ from the package's call."""
        optional = NOT_IN_VLLM - self.engine.keys() if backend == "vllm" else frozenset()
        names = self.package.keys() - optional
        return sorted(name for name in names if self.engine.get(name) != self.package[name])


class Certificate(BaseModel):
    """A record of the input that one model receives on one machine, with one set of packages."""

    model_config = ConfigDict(frozen=True)
    source: str
    backend: str
    weights: str = ""
    dtype: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    """The packages that the model's entry asks for, which may differ from those of the run's other models."""
    files: dict[str, str] = Field(default_factory=dict)
    """Settings beside the weights (``processor_config.json`` ...) -> SHA-256."""
    requests: dict[str, CertifiedRequest] = Field(default_factory=dict)
    """Key of a cell without its model (``ROD/hint``) -> the request of that cell."""
    reason: str = ""
    """Why requests are missing; empty if none are missing."""

    @property
    def has_package(self) -> bool:
        """Return True if the model is a checkpoint, which the package could call."""
        return self.backend in ENGINES

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
        return "equal" if self.has_package else "request only"

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
        if not self.has_package:
            return f"behind a service: the bytes of {cells} are recorded, not what the model makes of them"
        notes = ["the package repeats the start token"] if any(r.repeats_start for r in self.requests.values()) else []
        notes += ["normalized on the device"] if any(r.raw_pixels for r in self.requests.values()) else []
        notes += [f"{too_long} more are too long for the model"] if too_long else []
        return f"ids and every tensor of {cells} equal the package's call" + (f" ({'; '.join(notes)})" if notes else "")


CERTIFICATES = TypeAdapter(dict[str, Certificate])


def certify(model: ModelSpec, report: InputReport) -> Certificate:
    """Return the certificate of an engine's report."""
    requests = {recorded.cell: _certify_request(recorded) for recorded in report.inputs}
    dtype = next((recorded.engine.dtype for recorded in report.inputs if recorded.engine.dtype), "")
    return Certificate(
        source=model.source, backend=model.backend, weights=report.weights, dtype=dtype, packages=dict(report.packages),
        requirements=model.requirements, files=dict(report.files), requests=requests, reason=report.reason,
    )  # fmt: skip


def _certify_request(recorded: RecordedInput) -> CertifiedRequest:
    engine = recorded.engine
    return CertifiedRequest(
        sample=recorded.sample, pictures=recorded.pictures, engine=dict(engine.hashes), package=dict(recorded.package),
        decoding=TypeAdapter(dict[str, Any]).dump_python(dict(engine.decoding), mode="json"),
        repeats_start=recorded.repeats_start, raw_pixels=engine.raw_pixels, error=recorded.error, overflows=recorded.overflows,
    )  # fmt: skip


def changed_fields(old: Certificate, new: Certificate) -> list[str]:
    """Return what differs between two certificates of one model, most general first: ``torch: 2.13, now 2.14``.

    Two paths of the same weights, such as a relative and an absolute one, do not count as a difference.
    """
    is_same = bool(old.weights) and same_weights(old.weights, new.weights)
    pairs = {
        "source": (new.source if is_same else old.source, new.source), "backend": (old.backend, new.backend),
        "weights": (_weights(new if is_same else old), _weights(new)), "dtype": (old.dtype, new.dtype),
    }  # fmt: skip
    names = sorted(old.packages.keys() | new.packages.keys())
    pairs |= {name: (old.packages.get(name, "none"), new.packages.get(name, "none")) for name in names}
    files = _changed_files(old, new)
    fields = [f"changed files: {list_first(files)}"] if files else []
    fields += [f"{name}: {before}, now {after}" for name, (before, after) in pairs.items() if before != after]
    both = [(cell, old.requests[cell], new.requests[cell]) for cell in old.requests if cell in new.requests]
    changes: dict[str, list[str]] = {}
    for cell, before, after in both:
        for name in _changed_names(before, after):
            changes.setdefault(name, []).append(cell)
    return fields + [f"{name} of {list_first(cells)}" for name, cells in changes.items()]


def _changed_files(old: Certificate, new: Certificate) -> list[str]:
    """Return the settings files that differ; empty if either certificate lists no files."""
    if not (old.files and new.files):
        return []
    return sorted(name for name in old.files.keys() | new.files.keys() if old.files.get(name) != new.files.get(name))


def _weights(certificate: Certificate) -> str:
    return shorten(certificate.weights).removeprefix("weights ") if certificate.weights else "unknown"


def _changed_names(old: CertifiedRequest, new: CertifiedRequest) -> Iterator[str]:
    """Yield the names of changed tensors and decoding choices."""
    if old.sample != new.sample:
        yield "sample"
        return
    if bool(old.engine) and bool(new.engine):
        yield from (name for name in old.engine | new.engine if old.engine.get(name) != new.engine.get(name))
        choices = sorted(old.decoding.keys() | new.decoding.keys())
        yield from (f"decoding.{name}" for name in choices if old.decoding.get(name) != new.decoding.get(name))
    elif old.error != new.error:
        yield "error"


def add_certificate(folder: Path, model: str, new: Certificate) -> list[str]:
    """Store a model's certificate if the folder has none; return what differs from the stored one.

    Requests of cells that the stored certificate lacks are added to it. Raises OSError.
    """
    certificates = read_certificates(folder)
    old = certificates.get(model)
    if old is None or not old.requests:
        certificates[model] = new
    elif new.requests.keys() - old.requests.keys():
        certificates[model] = old.model_copy(update={"requests": {**new.requests, **old.requests}})
    if certificates.get(model) is not old:
        _write(folder, certificates)
    return [] if old is None or not (old.requests and new.requests) else changed_fields(old, new)


def forget_certificates(folder: Path, played: Collection[str]) -> None:
    """Drop the certificates of models that have played nothing yet; the next attempt writes new ones."""
    certificates = read_certificates(folder)
    if certificates.keys() - played:
        _write(folder, {name: certificate for name, certificate in certificates.items() if name in played})


def _write(folder: Path, certificates: Mapping[str, Certificate]) -> None:
    checksums.write(folder / FILE, to_json(CERTIFICATES.dump_python(dict(certificates), mode="json")))


def describe_change(model: str, fields: Sequence[str]) -> str:
    """Return one sentence on a model whose input has changed since its certificate was written."""
    return f"{model} does not receive what its certificate says: {list_first(fields, MAX_LISTED, '; ')}"


def read_certificates(folder: Path) -> dict[str, Certificate]:
    """Return model -> its certificate; empty for a folder of an earlier version or a damaged file."""
    try:
        return CERTIFICATES.validate_python(parse_json(checksums.read_verified(folder / FILE)))
    except (OSError, ValueError):
        return {}


def compare_certificates(
    base: Mapping[str, Certificate], other: Mapping[str, Certificate], base_name: str, other_name: str
) -> list[str]:
    """Return one sentence per model of both runs whose certificates differ."""
    lines = []
    for model in base.keys() & other.keys():
        if fields := changed_fields(base[model], other[model]):
            texts = list_first(fields, MAX_LISTED, "; ")
            lines.append(f"{model} did not receive the same in {base_name} and {other_name}: {texts}")
    return sorted(lines)


def summarize(models: Sequence[ModelSpec], certificates: Mapping[str, Certificate]) -> str:
    """Return the certificates of a run's models in one line; empty if no model has or needs one."""
    parts = []
    for status, words in SUMMARY.items():
        if names := [m.name for m in models if m.name in certificates and certificates[m.name].status == status]:
            parts.append(f"{words}: {list_first(names)}")
    without = [m.name for m in models if m.is_local and m.name not in certificates]
    return "; ".join([*parts, *([f"not certified: {list_first(without)}"] if without else [])])


def footnotes(models: Sequence[ModelSpec], certificates: Mapping[str, Certificate]) -> list[str]:
    """Return a footnote on models whose input is not certified as the package's, and one on own packages of models."""
    local = [model.name for model in models if model.is_local]
    unequal = [name for name in local if name in certificates and certificates[name].status == "unequal"]
    missing = [name for name in local if name not in certificates or certificates[name].status == "incomplete"]
    parts = [f"differs from the package's call: {list_first(unequal)}"] if unequal else []
    if missing:
        incomplete = f"no complete certificate: {list_first(missing)}"
        parts.append(incomplete if certificates else "this run has no certificates")
    own = [describe_own_packages(model, certificates.get(model.name)) for model in models if model.requirements]
    return [f"{head}: {'; '.join(texts)}." for head, texts in (("Model input", parts), ("Own packages", own)) if texts]


def describe_own_packages(model: ModelSpec, certificate: Certificate | None) -> str:
    """Return ``m: transformers 5.18.0``: versions from the certificate if it lists them, else the entry's requirements."""
    packages = certificate.packages if certificate else {}
    versions = [f"{name} {packages[name]}" for name in requirement_names(model.requirements) if name in packages]
    return f"{model.name}: {', '.join(versions or model.requirements)}"
