"""Every string that a model reads is the package's, or has a version of ours: another text is another experiment."""

from hashlib import sha256

from envs import stimulus, tool_calls


def digest(constants) -> str:
    """Return a hash of the names and texts of constants."""
    texts = sorted(f"{n}={text!r}" for n, text in constants.items() if n.isupper() and isinstance(text, str | tuple))
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


def test_published_prompts_are_the_packages_byte_for_byte():
    """The strings are those of ``proactivebench`` 0.1.1, so this digest has no reason to change."""
    asked = stimulus.ACCEPTED | stimulus.ALSO_ACCEPTED
    accepted = {f"{name.replace('-', '')}_ACCEPTED": tuple(texts) for name, texts in asked.items()}
    assert digest({**stimulus.PROMPTS, **accepted, "MOVE_CAMERA": "Move the camera"}) == "0e521fd6156abd2d"
    assert stimulus.multiple_choice("What is it?", ("Move it.", "Cup.")) == (
        "What is it? Choose from the following options. Options:\nA. Move it.\nB. Cup.\n"
        "Please only return one of the options without any other words."
    )


def test_our_words_for_function_calls_are_those_of_their_version():
    """Raise ``tool_calls.TOOLS_VERSION`` with another digest: it is part of the key of every such episode."""
    assert (tool_calls.TOOLS_VERSION, digest(vars(tool_calls) | tool_calls.TEXTS)) == ("tools-1", "6d9ad36e833f261e")
