"""A request states its decoding, or uses the checkpoint's file and the defaults of transformers."""

import re

import pytest

from actors.engine.backend import Unprocessable
from actors.engine.decoding import UNSUPPORTED, UNSUPPORTED_SAMPLING, Decoding, decoding
from sweeps.sampling import Sampling

QWEN = {"do_sample": True, "temperature": 1e-6, "repetition_penalty": 1.05}
PLAIN: dict[str, object] = {}
HARMLESS = {
    "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight", "assistant_lookbehind",
    "bad_words_ids", "bos_token_id", "cache_config", "cache_implementation", "compile_config",
    "continuous_batching_config", "decoder_start_token_id", "disable_compile", "do_sample", "early_stopping",
    "eos_token_id", "is_assistant", "length_penalty", "low_memory", "max_cache_len", "max_length",
    "max_matching_ngram_size", "max_new_tokens", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "pad_token_id", "prefill_chunk_size",
    "prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits", "repetition_penalty",
    "return_dict_in_generate", "speculation_type", "suppress_tokens", "target_lookbehind", "temperature", "top_k",
    "top_p", "transformers_version", "use_cache", "use_mtp",
}  # fmt: skip
"""Fields of a generation configuration that engines follow, or that change no reply."""


@pytest.mark.parametrize(
    ("sampling", "own", "expected"),
    [
        (Sampling(), QWEN, Decoding(0.0, 1.0, -1, 1.05)),
        (Sampling(temperature=0.7, top_p=0.8, top_k=20), QWEN, Decoding(0.7, 0.8, 20, 1.05)),
        (Sampling(checkpoint=True), QWEN, Decoding(1e-6, 1.0, 50, 1.05, stops=())),
        (Sampling(checkpoint=True), PLAIN, Decoding(0.0, 1.0, -1, 1.0, stops=())),
        (Sampling(checkpoint=True, sampled=True), PLAIN, Decoding(1.0, 1.0, 50, 1.0, stops=())),
        (Sampling(checkpoint=True), {"do_sample": True, "top_p": None}, Decoding(1.0, 1.0, 50, 1.0, stops=())),
        (Sampling(checkpoint=True), {"eos_token_id": [5, 2]}, Decoding(0.0, 1.0, -1, 1.0, stops=(5, 2))),
        (Sampling(), {"eos_token_id": 2}, Decoding(0.0, 1.0, -1, 1.0, stops=None)),
    ],
)
def test_decoding_merges_request_checkpoint_and_defaults(sampling, own, expected):
    assert decoding(sampling, own) == expected
    assert decoding(sampling, own, penalty=1.2).repetition_penalty == 1.2


@pytest.mark.parametrize(
    "field",
    [
        {"num_beams": 4}, {"stop_strings": ["."]}, {"do_sample": True, "min_p": 0.1}, {"do_sample": True, "top_k": -1},
    ],
    ids=lambda field: next(reversed(field)),
)  # fmt: skip
def test_unsupported_field_is_refused_by_name(field):
    name, value = list(field.items())[-1]
    with pytest.raises(Unprocessable, match=re.escape(f"cannot follow {name} = {value!r} of generation_config.json")):
        decoding(Sampling(checkpoint=True), field)

    assert decoding(Sampling(), field) == Decoding(0.0, 1.0, -1, 1.0), "a stated sampling ignores the file"


def test_banned_tokens_are_followed_one_by_one_and_refused_as_words():
    own = {"suppress_tokens": [5, 3], "bad_words_ids": [[3], [9]]}

    assert decoding(Sampling(checkpoint=True), own) == Decoding(0.0, 1.0, -1, 1.0, (3, 5, 9), ())
    assert decoding(Sampling(), own).banned == ()
    with pytest.raises(Unprocessable, match="cannot follow repetition_penalty = 0 of"):
        decoding(Sampling(checkpoint=True), {"repetition_penalty": 0})
    with pytest.raises(Unprocessable, match="cannot follow bad_words_ids of several tokens"):
        decoding(Sampling(checkpoint=True), {"bad_words_ids": [[3], [9, 4]]})


def test_every_field_of_transformers_that_changes_replies_is_followed_or_refused():
    """A release of transformers with a new field fails here, so that it is not ignored silently."""
    transformers = pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    fields = {name for name in transformers.GenerationConfig().to_dict() if not name.startswith("_")}

    assert fields <= HARMLESS | UNSUPPORTED | UNSUPPORTED_SAMPLING
