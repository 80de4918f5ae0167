"""A request states its decoding, or takes what the checkpoint's file and transformers' defaults say."""

import pytest

from actors.engine.decoding import Decoding, decoding
from sweeps.sampling import Sampling

QWEN = {"do_sample": True, "temperature": 1e-6, "repetition_penalty": 1.05}
PLAIN: dict[str, object] = {}


@pytest.mark.parametrize(
    ("sampling", "own", "expected"),
    [
        (Sampling(), QWEN, Decoding(0.0, 1.0, -1, 1.05)),
        (Sampling(temperature=0.7, top_p=0.8, top_k=20), QWEN, Decoding(0.7, 0.8, 20, 1.05)),
        (Sampling(checkpoint=True), QWEN, Decoding(1e-6, 1.0, 50, 1.05)),
        (Sampling(checkpoint=True), PLAIN, Decoding(0.0, 1.0, -1, 1.0)),
        (Sampling(checkpoint=True), {"do_sample": False, "temperature": 0.2}, Decoding(0.0, 1.0, -1, 1.0)),
        (Sampling(checkpoint=True, sampled=True), PLAIN, Decoding(1.0, 1.0, 50, 1.0)),
        (Sampling(checkpoint=True), {"do_sample": True, "top_p": 0.8, "top_k": 0}, Decoding(1.0, 0.8, -1, 1.0)),
        (Sampling(checkpoint=True), {"do_sample": True, "top_p": None, "top_k": None}, Decoding(1.0, 1.0, 50, 1.0)),
    ],
)
def test_what_is_stated_what_the_file_says_and_what_transformers_adds(sampling, own, expected):
    assert decoding(sampling, own) == expected
    assert decoding(sampling, own, penalty=1.2).repetition_penalty == 1.2
