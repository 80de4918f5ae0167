"""Removes secrets from text: user and password of an address, values of environment variables that are named like a secret.

Text without a secret comes back as it was; in doubt more of one address is hidden, but in a text never beyond the next space.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
"""Names of environment variables whose values are redacted."""
MIN_SECRET_LENGTH = 8
"""Characters from which on such a value counts as a secret: replacing ``0`` or ``none`` would make a log unreadable."""
HOST = r"""(?:\[[\w:.%]+\]|[\w.-]*)(?::\d*)?(?:[/?#"<>`\\]|[,;:!?.)\]]*(?:\s|$))"""
"""``host``, ``host:port`` or ``[ipv6]:port`` up to the end of the authority (RFC 3986, 3.2): no ``@`` behind it ends userinfo."""
USERINFO_IN_TEXT = re.compile(rf"(?<=://)(?!{HOST})\S*@")
USERINFO_OF_ADDRESS = re.compile(rf"(?<=://)(?!{HOST})[^\n]*@")


def redact_addresses(text: str) -> str:
    """The text with ``***`` for the userinfo of each address (``scheme://user:password@host``).

    Userinfo ends at the last ``@`` before a space, so that a password may hold ``@``, and ``/`` where no port number precedes it.
    """
    return USERINFO_IN_TEXT.sub("***@", text)


def redact_address(address: str) -> str:
    """The same for a string that is one address, or one option with an address, whose password may hold spaces, too."""
    return USERINFO_OF_ADDRESS.sub("***@", address)


def redact_environment(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with ``***`` for the value of every environment variable that is named like a secret."""
    values = {value for name, value in environment.items() if SECRET_NAME.search(name.upper())}
    for value in sorted(values, key=len, reverse=True):  # one may begin with another
        if len(value) >= MIN_SECRET_LENGTH:
            text = text.replace(value, "***")
    return text


def redact_key(text: str, key: str) -> str:
    """The text with ``***`` for the key and for every run of ``MIN_SECRET_LENGTH`` of its characters; a shorter key is none.

    Services repeat parts of a key ("Incorrect API key: sk-abc...wxyz").
    """
    size = MIN_SECRET_LENGTH
    runs = dict.fromkeys(key[start : start + size] for start in range(len(key) - size + 1))
    places = sorted(place for run in runs for place in _places(text, run))
    if not places:
        return text
    kept, end = [text[: places[0]], "***"], places[0] + size
    for place in places:
        if place > end:  # else it goes on where the last one ends
            kept += [text[end:place], "***"]
        end = place + size
    return "".join([*kept, text[end:]])


def _places(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)
