"""Certificates say whether a model receives what the package would send it, and what has changed since they were written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.engine.backend import ModelInput
from actors.trial.certify import InputReport, RecordedInput
from orchestrator.inspection.certificate import (
    FILE,
    Certificate,
    add_certificate,
    certify,
    changed_fields,
    compare_certificates,
    describe_change,
    footnotes,
    forget_certificates,
    read_certificates,
)
from orchestrator.storage import checksums
from sweeps.spec import ModelSpec

MODEL = ModelSpec(name="m", source="org/name", backend="transformers")
HASHES = {"input_ids": "a" * 64, "pixel_values": "b" * 64, "attention_mask": "c" * 64}
COMMITS = ("1" * 40, "2" * 40)


def recorded(cell: str = "ROD/hint", **changes: str) -> RecordedInput:
    """A request of which the engine has these tensors, where the package has ``HASHES``."""
    engine = ModelInput((1, 2), {**HASHES, **changes}, {"temperature": 0.0, "banned": (1,)}, "bfloat16")
    return RecordedInput(cell, 7, 1, engine, HASHES)


def certificate(*inputs: RecordedInput, model: ModelSpec = MODEL, **report: object) -> Certificate:
    given = {"inputs": inputs or (recorded(),), "weights": COMMITS[0], "packages": {"torch": "2.13"}}
    return certify(model, InputReport(**{**given, **report}))  # type: ignore[arg-type]


def test_equal_tensors_are_certified() -> None:
    found = certificate(recorded(), replace(recorded("QD/hint"), repeats_start=True))

    assert (found.status, found.dtype, found.weights) == ("equal", "bfloat16", COMMITS[0])
    assert found.describe() == (
        "ids and every tensor of 2 requests equal the package's call (the package repeats the start token)"
    )
    assert found.requests["ROD/hint"].decoding == {"temperature": 0.0, "banned": [1]}


def test_a_tensor_that_differs_is_named_with_its_cell() -> None:
    found = certificate(recorded("ROD/hint"), recorded("QD/hint", pixel_values="d" * 64))

    assert (found.status, found.differences) == ("unequal", {"QD/hint": ["pixel_values"]})
    assert found.describe() == "1 of 2 requests differ from the package's call, first pixel_values of QD/hint"


def test_vllm_needs_no_mask_and_transformers_does() -> None:
    without = {name: value for name, value in HASHES.items() if name != "attention_mask"}
    request = replace(recorded(), engine=ModelInput((1,), without))

    assert certificate(request, model=MODEL.model_copy(update={"backend": "vllm"})).status == "equal"
    assert certificate(request).differences == {"ROD/hint": ["attention_mask"]}
    lost = replace(recorded(), engine=ModelInput((1,), {"input_ids": "a" * 64}))
    assert certificate(lost, model=MODEL.model_copy(update={"backend": "vllm"})).differences == {
        "ROD/hint": ["pixel_values"]
    }


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (certificate(inputs=(), reason="it took longer than 360 s"), "it took longer"),
        (certificate(replace(recorded(), error="too long")), "ROD/hint: too long"),
        (certify(MODEL, InputReport()), "no request could be posed"),
    ],
    ids=["reason", "error", "nothing"],
)
def test_what_is_missing_has_its_reason(found: Certificate, words: str) -> None:
    assert found.status == "incomplete"
    assert words in found.describe()


def test_a_request_that_is_too_long_leaves_the_others_certified() -> None:
    long = RecordedInput("MVP-N/icl-3", 7, 13, error="the prompt has 81034 tokens", overflows=True)
    found = certificate(recorded(), long)

    assert (found.status, footnotes([MODEL], {"m": found})) == ("equal", [])
    assert found.describe() == (
        "ids and every tensor of 1 request equal the package's call (1 more are too long for the model)"
    )
    assert certificate(long).describe() == "not complete: every request is too long for the model"


def test_a_service_has_the_bytes_of_its_requests_alone() -> None:
    service = ModelSpec(name="s", source="gpt", backend="openai")
    found = certify(
        service, InputReport(inputs=(RecordedInput("ROD/hint", 7, 1, ModelInput(hashes={"request": "e" * 64})),))
    )

    assert found.status == "request only"
    assert found.describe() == "behind a service: the bytes of 1 request are recorded, not what the model makes of them"
    assert footnotes([service], {"s": found}) == []


def test_every_field_that_changed_is_named() -> None:
    colder = replace(recorded().engine, decoding={"temperature": 1.0, "banned": (1,)})
    new = certificate(replace(recorded(pixel_values="d" * 64), engine=replace(colder, hashes={**HASHES, "pixel_values": "d"})),
                      weights=COMMITS[1], packages={"torch": "2.14"})  # fmt: skip

    assert changed_fields(certificate(), certificate()) == []
    assert changed_fields(certificate(), new) == [
        "weights: revision 111111111111, now revision 222222222222", "torch: 2.13, now 2.14", "pixel_values of ROD/hint",
        "decoding.temperature of ROD/hint",
    ]  # fmt: skip
    assert compare_certificates({"m": certificate(), "a": new}, {"m": new, "b": new}, "A", "B") == [
        "m did not receive the same in A and B: weights: revision 111111111111, now revision 222222222222; torch: 2.13, now "
        "2.14; pixel_values of ROD/hint; decoding.temperature of ROD/hint"
    ]
    other = certificate(replace(recorded(), sample=8))
    assert changed_fields(certificate(), other) == ["sample of ROD/hint"]


def test_a_changed_file_is_named_and_another_path_to_the_same_files_is_no_change() -> None:
    old = certificate(weights="sha256:1", files={"config.json": "1", "processor_config.json": "1"})
    new = certificate(weights="sha256:2", files={"config.json": "1", "processor_config.json": "2", "vocab.json": "1"})
    elsewhere = certificate(model=MODEL.model_copy(update={"source": "/mnt/org/name"}))

    assert changed_fields(old, new) == [
        "changed files: processor_config.json, vocab.json", "weights: sha256:1, now sha256:2"
    ]  # fmt: skip
    assert changed_fields(old, certificate(weights="sha256:1")) == [], "an older certificate names no files"
    assert changed_fields(certificate(), elsewhere) == []
    assert changed_fields(old, elsewhere.model_copy(update={"weights": "sha256:3", "files": {}})) == [
        "source: org/name, now /mnt/org/name", "weights: sha256:1, now sha256:3"
    ]  # fmt: skip


def test_a_stored_certificate_stays_and_a_missing_one_is_replaced(tmp_path: Path) -> None:
    assert add_certificate(tmp_path, "m", certificate(inputs=(), reason="no processor")) == []
    assert read_certificates(tmp_path)["m"].status == "incomplete"
    assert add_certificate(tmp_path, "m", certificate()) == []
    first = (tmp_path / FILE).read_bytes()
    changed = add_certificate(tmp_path, "m", certificate(recorded(pixel_values="d" * 64)))

    assert changed == ["pixel_values of ROD/hint"]
    assert describe_change("m", changed) == "m does not receive what its certificate says: pixel_values of ROD/hint"
    assert add_certificate(tmp_path, "m", certificate(inputs=(), reason="a hiccup")) == []
    assert (tmp_path / FILE).read_bytes() == first
    assert add_certificate(tmp_path, "m", certificate(recorded(), recorded("QD/hint"))) == []
    assert list(read_certificates(tmp_path)["m"].requests) == ["ROD/hint", "QD/hint"]
    assert checksums.damaged_files(tmp_path) == []


def test_a_model_that_has_played_nothing_is_certified_anew(tmp_path: Path) -> None:
    for name in ("a", "b"):
        add_certificate(tmp_path, name, certificate())
    forget_certificates(tmp_path, {"b", "c"})

    assert read_certificates(tmp_path) == {"b": certificate()}
    assert checksums.damaged_files(tmp_path) == []


def test_tables_name_what_is_not_certified() -> None:
    models = [MODEL.model_copy(update={"name": name}) for name in ("a", "b", "c")]
    policy = ModelSpec(name="p", source="builtin:oracle", backend="builtin")
    unequal = certificate(recorded(pixel_values="d" * 64))

    assert footnotes([*models, policy], dict.fromkeys("abc", certificate())) == []
    assert footnotes([policy], {}) == []
    assert footnotes(models, {}) == ["Model input: this run has no certificates."]
    assert footnotes(models, {"a": certificate(), "b": unequal}) == [
        "Model input: differs from the package's call: b; no complete certificate: c."
    ]


def test_packages_of_a_models_own_are_recorded_and_named_below_tables(tmp_path: Path) -> None:
    own = MODEL.model_copy(update={"requirements": ("Transformers==5.18.0",)})
    found = certificate(model=own, packages={"torch": "2.13", "transformers": "5.18.0"})
    add_certificate(tmp_path, "m", found)

    assert read_certificates(tmp_path)["m"].requirements == ("Transformers==5.18.0",)
    assert footnotes([own], {"m": found}) == ["Own packages: m: transformers 5.18.0."]
    assert footnotes([own], {})[-1] == "Own packages: m: Transformers==5.18.0."
    assert footnotes([MODEL], {"m": certificate()}) == []
