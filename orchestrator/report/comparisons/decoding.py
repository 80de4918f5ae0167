"""How the decoding of a run differs from the paper's, and whether figures can be compared all the same."""

from sweeps.sampling import AS_THE_PACKAGE, Sampling
from sweeps.spec import OpenEnded


def decoding_mismatch(sampling: Sampling) -> str | None:
    """Return why decoding is not comparable: another temperature or number of new tokens."""
    paper = Sampling()
    if (sampling.temperature, sampling.max_tokens) == (paper.temperature, paper.max_tokens):
        return None
    return (
        f"decoded otherwise than the paper: {sampling.description} and {sampling.max_tokens} new tokens, not as each checkpoint's"
        f" generation_config says and {paper.max_tokens}"
    )


def sampling_mismatch(sampling: Sampling) -> str | None:
    """Return why open-ended answers are not decoded as in the package's example: sampled, without a tight limit."""
    is_sampled = sampling.temperature > 0 or (sampling.checkpoint and sampling.sampled)
    if is_sampled and sampling.max_tokens >= OpenEnded().sampling.max_tokens:
        return None
    return (
        f"answered otherwise than in the paper: {sampling.description} and at most {sampling.max_tokens:,} new tokens,"
        " not sampled and as long as it takes"
    )


def decoding_note(sampling: Sampling, protocol: str) -> str:
    """Return how the decoding of compared figures differs from the package's; empty if it does not."""
    package = Sampling(checkpoint=True) if protocol == "mcqa" else AS_THE_PACKAGE
    if sampling == package:
        return ""
    ours, theirs = (
        f"{settings.description}, at most {settings.max_tokens:,} new tokens" for settings in (sampling, package)
    )
    return f'decoding of {protocol} differs: ours {ours}; the package\'s {theirs} (sampling = "checkpoint")'
