"""Errors of remote files: whatever a network library raises becomes one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from actors.text.proxies import describe_proxy
from envs.samples import BadData


class FetchError(BadData):
    """A remote file that could not be fetched; its text is the full message."""


@contextmanager
def fetch_errors(subject: str, who: str = "the Hub") -> Iterator[None]:
    """Turn errors of network libraries into FetchError."""
    try:
        yield
    except ModuleNotFoundError as problem:
        raise FetchError(f"this needs the package {problem.name}: pip install 'proactive-sweep[hub,cloud]'") from None
    except BadData:
        raise
    except Exception as problem:  # from five packages; each means a failed request
        proxy = describe_proxy("https://huggingface.co")
        raise FetchError(f"{who} did not give {subject}{proxy}: {short_message(problem)}") from None


def short_message(problem: Exception) -> str:
    """Return the first line of a message, without the query strings of addresses, which may hold signatures."""
    text = (str(problem).strip() or type(problem).__name__).split("\n")[0]
    return re.sub(r"\?\S+", "", text)[:200]
