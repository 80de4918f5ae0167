"""Every string that a model reads is the package's, or has a version of ours: another text is another experiment."""

from hashlib import sha256

from envs import stimulus, tool_calls


def digest(module) -> str:
    """Return a hash of the names and texts of a module's constants."""
    constants = ((name, value) for name, value in vars(module).items() if name.isupper())
    texts = sorted(f"{name}={value!r}" for name, value in constants if isinstance(value, str | tuple))
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


def test_published_prompts_are_the_packages_byte_for_byte():
    """The strings are those of ``proactivebench`` 0.1.1, so this digest has no reason to change."""
    assert digest(stimulus) == "0e521fd6156abd2d"
    assert stimulus.multiple_choice("What is it?", ("Move it.", "Cup.")) == (
        "What is it? Choose from the following options. Options:\nA. Move it.\nB. Cup.\n"
        "Please only return one of the options without any other words."
    )


def test_our_words_for_function_calls_are_those_of_their_version():
    """Raise ``tool_calls.TOOLS_VERSION`` with another digest: it is part of the key of every such episode."""
    assert (tool_calls.TOOLS_VERSION, digest(tool_calls)) == ("tools-1", "6d9ad36e833f261e")
