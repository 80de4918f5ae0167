"""Certificates say whether a model receives what the package would send it, and what has changed since they were written."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.trial.certificate import Certificate, CertifiedRequest
from orchestrator.inspection.certificate import (
    FILE,
    add_certificate,
    changed_fields,
    compare_certificates,
    footnotes,
    read_certificates,
)
from orchestrator.storage import checksums
from sweeps.spec import ModelSpec

MODEL = ModelSpec(name="m", source="org/name", backend="transformers")
HASHES = {"input_ids": "a" * 64, "pixel_values": "b" * 64, "attention_mask": "c" * 64}
COMMITS = ("1" * 40, "2" * 40)
LONG = CertifiedRequest(sample=7, pictures=13, error="the prompt has 81034 tokens", overflows=True)


def recorded(engine: dict[str, str] = HASHES, **fields: object) -> CertifiedRequest:
    """A request of which the engine has these tensors, where the package has ``HASHES``."""
    known = {"sample": 7, "pictures": 1, "engine": engine, "package": HASHES, "decoding": {"temperature": 0.0}}
    return CertifiedRequest.model_validate({**known, **fields})


def changed(**tensors: str) -> CertifiedRequest:
    return recorded({**HASHES, **tensors})


def certificate(requests: object = None, **fields: object) -> Certificate:
    known = {
        "source": "org/name", "backend": "transformers", "weights": COMMITS[0], "packages": {"torch": "2.13"},
        "requests": {"ROD/hint": recorded()} if requests is None else requests,
    }  # fmt: skip
    return Certificate.model_validate({**known, **fields})


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (
            certificate({"ROD/hint": recorded(), "QD/hint": recorded(repeats_start=True)}), "equal",
            "ids and every tensor of 2 requests equal the package's call",
        ),
        (
            certificate({"ROD/hint": recorded(), "QD/hint": changed(pixel_values="d" * 64)}), "unequal",
            "1 of 2 requests differ from the package's call, first pixel_values of QD/hint",
        ),
        (certificate({}, reason="it took longer than 360 s"), "incomplete", "it took longer than 360 s"),
        (certificate({"ROD/hint": recorded(error="no room")}), "incomplete", "ROD/hint: no room"),
        (certificate({}), "incomplete", "no request could be posed"),
        (
            certificate({"ROD/hint": recorded(), "MVP-N/icl-3": LONG}), "equal",
            "ids and every tensor of 1 request equal the package's call (1 more are too long for the model)",
        ),
        (certificate({"MVP-N/icl-3": LONG}), "incomplete", "every request is too long for the model"),
        (
            certificate({"ROD/hint": CertifiedRequest(sample=7, engine={"request": "e" * 64})}, backend="openai"),
            "request only", "the bytes of 1 request are recorded, not what the model makes of them",
        ),
    ],
    ids=["equal", "unequal", "reason", "error", "nothing", "long", "all long", "service"],
)  # fmt: skip
def test_a_certificate_says_what_is_equal_or_missing(found: Certificate, status: str, words: str) -> None:
    assert found.status == status
    assert found.describe().endswith(words)


def test_vllm_needs_no_mask_and_transformers_does() -> None:
    without = {"QD/hint": recorded({name: value for name, value in HASHES.items() if name != "attention_mask"})}

    assert certificate(without, backend="vllm").status == "equal"
    assert certificate(without).differences == {"QD/hint": ["attention_mask"]}
    lost = {"QD/hint": recorded({"input_ids": "a" * 64})}
    assert certificate(lost, backend="vllm").differences == {"QD/hint": ["pixel_values"]}


def test_every_field_that_changed_is_named() -> None:
    colder = recorded({**HASHES, "pixel_values": "d"}, decoding={"temperature": 1.0})
    new = certificate({"ROD/hint": colder}, weights=COMMITS[1], packages={"torch": "2.14"})

    assert changed_fields(certificate(), certificate()) == []
    fields = [
        "weights: revision 111111111111, now revision 222222222222", "torch: 2.13, now 2.14", "pixel_values of ROD/hint",
        "decoding.temperature of ROD/hint",
    ]  # fmt: skip
    assert changed_fields(certificate(), new) == fields
    (sentence,) = compare_certificates({"m": certificate(), "a": new}, {"m": new, "b": new}, "A", "B")
    assert sentence == f"m did not receive the same in A and B: {'; '.join(fields)}"
    assert changed_fields(certificate(), certificate({"ROD/hint": recorded(sample=8)})) == ["sample of ROD/hint"]


def test_a_changed_file_is_named_and_another_path_to_the_same_files_is_no_change() -> None:
    old = certificate(weights="sha256:1", files={"config.json": "1", "processor_config.json": "1"})
    new = certificate(weights="sha256:2", files={"config.json": "1", "processor_config.json": "2", "vocab.json": "1"})
    elsewhere = certificate(source="/mnt/org/name")

    assert changed_fields(old, new) == [
        "changed files: processor_config.json, vocab.json", "weights: sha256:1, now sha256:2"
    ]  # fmt: skip
    assert changed_fields(old, certificate(weights="sha256:1")) == [], "an older certificate names no files"
    assert changed_fields(certificate(), elsewhere) == []
    assert changed_fields(old, elsewhere.model_copy(update={"weights": "sha256:3", "files": {}})) == [
        "source: org/name, now /mnt/org/name", "weights: sha256:1, now sha256:3"
    ]  # fmt: skip


def test_a_stored_certificate_stays_and_a_missing_one_is_replaced(tmp_path: Path) -> None:
    assert add_certificate(tmp_path, "m", certificate({}, reason="no processor")) == []
    assert read_certificates(tmp_path)["m"].status == "incomplete"
    assert add_certificate(tmp_path, "m", certificate()) == []
    first = (tmp_path / FILE).read_bytes()

    other = certificate({"ROD/hint": changed(pixel_values="d")})
    assert add_certificate(tmp_path, "m", other) == ["pixel_values of ROD/hint"]
    assert add_certificate(tmp_path, "m", certificate({}, reason="a hiccup")) == []
    assert (tmp_path / FILE).read_bytes() == first
    assert add_certificate(tmp_path, "m", certificate({"ROD/hint": recorded(), "QD/hint": recorded()})) == []
    assert list(read_certificates(tmp_path)["m"].requests) == ["ROD/hint", "QD/hint"]
    assert checksums.damaged_files(tmp_path) == []


def test_tables_name_what_is_not_certified() -> None:
    models = [MODEL.model_copy(update={"name": name}) for name in ("a", "b", "c")]
    policy = ModelSpec(name="p", source="builtin:oracle", backend="builtin")
    unequal = certificate({"ROD/hint": changed(pixel_values="d" * 64)})

    assert footnotes([*models, policy], dict.fromkeys("abc", certificate())) == []
    assert footnotes([policy], {}) == []
    assert footnotes(models, {}) == ["Model input: this run has no certificates."]
    (note,) = footnotes(models, {"a": certificate(), "b": unequal})
    assert note == "Model input: differs from the package's call: b; no complete certificate: c."
