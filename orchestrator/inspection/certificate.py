"""The certificates of a run (``certificates.json``): store them, and say what changed since and what is not certified."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from actors.engine.weights import same_weights
from actors.text.printable import list_first
from actors.trial.certificate import MAX_LISTED, Certificate, CertifiedRequest
from envs.regular import parse_json
from orchestrator.storage import checksums
from orchestrator.storage.loaded_weights import shorten
from orchestrator.storage.run_folder import to_json
from sweeps.spec import ModelSpec

FILE = "certificates.json"
CERTIFICATES = TypeAdapter(dict[str, Certificate])


def changed_fields(old: Certificate, new: Certificate) -> list[str]:
    """Return what differs between two certificates of one model, most general first: ``torch: 2.13, now 2.14``.

    Two paths of the same weights, such as a relative and an absolute one, do not count as a difference.
    """
    if old.weights and same_weights(old.weights, new.weights):
        old = old.model_copy(update={"source": new.source, "weights": new.weights})
    before, now = _facts(old), _facts(new)
    files = _differing(old.files, new.files) if old.files and new.files else []
    fields = [f"changed files: {list_first(files)}"] if files else []
    fields += [f"{name}: {before.get(name, 'none')}, now {now.get(name, 'none')}" for name in _differing(before, now)]
    cells: dict[str, list[str]] = {}
    for cell in (cell for cell in old.requests if cell in new.requests):
        for name in _changed_inputs(old.requests[cell], new.requests[cell]):
            cells.setdefault(name, []).append(cell)
    return fields + [f"{name} of {list_first(changed)}" for name, changed in cells.items()]


def _facts(certificate: Certificate) -> dict[str, object]:
    facts = certificate.model_dump(include={"source", "backend", "dtype"})
    weights = shorten(certificate.weights).removeprefix("weights ") if certificate.weights else "unknown"
    return {**facts, "weights": weights, **certificate.packages}


def _changed_inputs(old: CertifiedRequest, new: CertifiedRequest) -> list[str]:
    if old.sample != new.sample:
        return ["sample"]
    if not (old.engine and new.engine):
        return ["error"] if old.error != new.error else []
    return _differing(old.engine, new.engine) + [f"decoding.{name}" for name in _differing(old.decoding, new.decoding)]


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]


def add_certificate(folder: Path, model: str, new: Certificate) -> list[str]:
    """Store a model's certificate if the folder has none; return what differs from the stored one.

    Requests of cells that the stored certificate lacks are added to it. Raises OSError.
    """
    certificates = read_certificates(folder)
    old = certificates.get(model)
    if old is None or not old.requests:
        _write(folder, {**certificates, model: new})
        return []
    if new.requests.keys() - old.requests.keys():
        merged = old.model_copy(update={"requests": {**new.requests, **old.requests}})
        _write(folder, {**certificates, model: merged})
    return changed_fields(old, new) if new.requests else []


def forget_certificates(folder: Path, played: Collection[str]) -> None:
    """Drop the certificates of models that have played nothing yet; the next attempt writes new ones."""
    certificates = read_certificates(folder)
    if certificates.keys() - played:
        _write(folder, {name: certificate for name, certificate in certificates.items() if name in played})


def _write(folder: Path, certificates: Mapping[str, Certificate]) -> None:
    checksums.write(folder / FILE, to_json(CERTIFICATES.dump_python(dict(certificates), mode="json")))


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
    changes = {model: changed_fields(base[model], other[model]) for model in sorted(base.keys() & other.keys())}
    return [
        f"{model} did not receive the same in {base_name} and {other_name}: {list_first(fields, MAX_LISTED, '; ')}"
        for model, fields in changes.items()
        if fields
    ]


def footnotes(models: Sequence[ModelSpec], certificates: Mapping[str, Certificate]) -> list[str]:
    """Return a footnote on models whose input is not certified as the package's, and one on own packages of models."""
    found = {model.name: certificates.get(model.name) for model in models if model.is_local}
    unequal = [name for name, certificate in found.items() if certificate and certificate.status == "unequal"]
    missing = [name for name, certificate in found.items() if not certificate or certificate.status == "incomplete"]
    parts = [f"differs from the package's call: {list_first(unequal)}"] if unequal else []
    if missing:
        incomplete = f"no complete certificate: {list_first(missing)}"
        parts.append(incomplete if certificates else "this run has no certificates")
    own = [f"{model.name}: {', '.join(model.requirements)}" for model in models if model.requirements]
    return [f"{head}: {'; '.join(texts)}." for head, texts in (("Model input", parts), ("Own packages", own)) if texts]
