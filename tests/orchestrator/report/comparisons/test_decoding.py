"""Which decoding is comparable with the paper's, and how a table names one that is not."""

from orchestrator.report.tables.rounding import decoding_mismatch, decoding_note, sampling_mismatch
from sweeps.sampling import AS_THE_PACKAGE, Sampling


def test_another_temperature_or_length_is_not_comparable():
    assert decoding_mismatch(Sampling()) is None and decoding_mismatch(Sampling(checkpoint=True)) is None
    assert decoding_mismatch(Sampling(top_p=0.5)) is None
    assert decoding_mismatch(Sampling(max_tokens=51)) == (
        "decoded otherwise than the paper: greedy with at most 51 new tokens, instead of each checkpoint's"
        " generation_config with at most 50"
    )
    assert decoding_mismatch(Sampling(temperature=0.7)) == (
        "decoded otherwise than the paper: sampled at temperature 0.7 with at most 50 new tokens, instead of each"
        " checkpoint's generation_config with at most 50"
    )


def test_answers_are_sampled_and_long():
    assert sampling_mismatch(AS_THE_PACKAGE) is None
    assert sampling_mismatch(Sampling(temperature=0.1, max_tokens=4096)) is None
    for sampling in (
        Sampling(max_tokens=4096),
        Sampling(checkpoint=True, max_tokens=4096),
        Sampling(temperature=1, max_tokens=4095),
    ):
        assert sampling_mismatch(sampling) is not None
    assert sampling_mismatch(Sampling(max_tokens=4096)) == (
        "answered otherwise than in the paper: greedy with at most 4,096 new tokens, instead of sampled with a limit"
        " of 4,096 or more"
    )


def test_a_note_names_both_decodings():
    assert decoding_note(Sampling(checkpoint=True), "mcqa") == decoding_note(AS_THE_PACKAGE, "oeg") == ""
    assert decoding_note(Sampling(), "mcqa") == (
        "decoding of mcqa differs: ours greedy, at most 50 new tokens; the package's as each checkpoint's generation_config"
        ' says, at most 50 new tokens (sampling = "checkpoint")'
    )
    assert decoding_note(Sampling(temperature=1, max_tokens=4096), "oeg") == (
        "decoding of oeg differs: ours sampled at temperature 1, at most 4,096 new tokens; the package's as each checkpoint's"
        ' generation_config says, always sampled, at most 32,768 new tokens (sampling = "checkpoint")'
    )
