"""Sentences on certificates and costs, each whole."""

from orchestrator.inspection.certificate import Certificate, CertifiedRequest, changed_fields, footnotes, summarize
from orchestrator.inspection.service_cost import CostEstimate, Usage, lines
from sweeps.spec import ModelSpec


def model(**entry) -> ModelSpec:
    return ModelSpec(**{"name": "m", "source": "org/m", **entry})


def request(**fields) -> CertifiedRequest:
    hashes = {"input_ids": "a", "pixel_values": "b"}
    return CertifiedRequest(**{"sample": 1, "engine": hashes, "package": hashes, **fields})


def test_the_notes_of_an_equal_certificate_are_in_brackets():
    own = Certificate(source="s", backend="vllm", requests={
        "A": request(repeats_start=True, raw_pixels=True), "B": request(), "C": request(overflows=True, error="long"),
    })  # fmt: skip
    assert own.describe() == (
        "ids and every tensor of 2 requests equal the package's call (the package repeats the start token; normalized on the"
        " device; 1 more are too long for the model)"
    )
    several = {name: name * 3 for name in ("e", "d", "c", "b", "a")}
    odd = Certificate(source="s", backend="vllm", requests={"A": request(), "B": request(package=several, engine={})})
    assert odd.describe() == "1 of 2 requests differ from the package's call, first a, b, c, d of B"
    assert Certificate(source="s", backend="vllm").missing == "no request could be posed"


def test_models_are_summed_up_by_status():
    certificates = {
        "equal": Certificate(source="s", backend="vllm", requests={"A": request()}),
        "other": Certificate(source="s", backend="vllm", requests={"A": request(engine={})}),
        "cut": Certificate(source="s", backend="vllm", requests={"A": request()}, reason="killed"),
        "far": Certificate(source="s", backend="openai", requests={"A": request(package={})}),
    }
    models = [model(name=name, backend="openai" if name == "far" else "vllm") for name in [*certificates, "none"]]
    assert summarize(models, certificates) == (
        "every tensor equals the package's call: equal; differs from the package's call: other; incomplete certificate: cut;"
        " only the bytes sent to the service are recorded: far; not certified: none"
    )
    assert summarize([model(backend="builtin")], {}) == ""
    assert footnotes(models, certificates) == [
        "Model input: differs from the package's call: other; no complete certificate: cut, none."
    ]


def test_changes_are_named_from_the_general_to_the_single_tensor():
    old = Certificate(source="s", backend="vllm", requests={"A": request(), "B": request(error="x", engine={})})
    new = Certificate(source="s", backend="transformers", dtype="float32", packages={"torch": "2"}, requests={
        "A": request(engine={"input_ids": "z", "more": "1"}, decoding={"top_k": 1}), "B": request(engine={}), "C": request(),
    })  # fmt: skip
    assert changed_fields(old, new) == [
        "backend: vllm, now transformers", "dtype: , now float32", "torch: none, now 2", "input_ids of A",
        "pixel_values of A", "more of A", "decoding.top_k of A", "error of B",
    ]  # fmt: skip
    weights = [Certificate(source="s", backend="b", weights=text) for text in ("", "1" * 40)]
    assert changed_fields(*weights) == ["weights: unknown, now revision 111111111111"]


def priced(**changes) -> ModelSpec:
    endpoint = {"base_url": "http://x.test/v1", "key_env": "", "prompt_price": 2.0, "reply_price": 8.0, **changes}
    return model(source="gpt-4.1", backend="openai", endpoint=endpoint)


def test_an_estimate_is_a_sentence():
    least, most = Usage(10, 999_999, 20), Usage(1_234, 1_250_000, 3_000_000)
    assert CostEstimate(priced(), 1_500, least, most, None, 1).line == (
        "m: 1,500 episodes, 10 to 1,234 requests, 999,999 to 1.2 M prompt tokens, 20 to 3.0 M reply tokens: 2.00 to 26.50"
        " (its prices)"
    )
    assert CostEstimate(priced(priced="USD, 2026"), 3, least, most, 0.5, 1).line.endswith(
        ": 2.00 to 26.50 (USD, 2026); 1.50 at the mean cost of its stored episodes"
    )
    free = CostEstimate(priced(prompt_price=0.0, reply_price=0.0), 3, least, most, 0.5, 1)
    assert free.line.endswith(" reply tokens; its entry has no prices")
    unknown = CostEstimate(priced().model_copy(update={"source": "their"}), 3, least, most, None, 1)
    assert unknown.line.endswith("(its prices); no published rule for its pictures")
    batched = priced().model_copy(update={"batch": True})
    for turns, days in ((1, "one turn"), (2, "2 turns in the longest episodes")):
        assert CostEstimate(batched, 3, least, most, None, turns).line.endswith(
            f"; through the Batch API, at half the listed price: up to 24 hours per turn, {days}"
        )
    assert Usage(1, 2, 3).plus(Usage(10, 20, 30), 0.5) == Usage(6, 12, 18)


def test_several_services_have_a_sum_and_a_limit():
    own = CostEstimate(priced(), 3, Usage(1, 500_000, 0), Usage(1, 1_000_000, 0), None, 1)
    free = CostEstimate(priced(prompt_price=0.0, reply_price=0.0), 3, Usage(), Usage(), None, 1)
    assert list(lines([own, free], None)) == [own.line, free.line]
    assert list(lines([own, own, free], 2.5))[3:] == [
        "all services: 2.00 to 4.00", "all services stop at max_cost = 2.5",
    ]  # fmt: skip
    assert list(lines([], 2.5)) == []
