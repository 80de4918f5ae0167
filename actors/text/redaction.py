"""Removes secrets from text: user and password of an address, values of environment variables named like a secret.

Text without a secret is unchanged. If it is unclear where a password ends, too much is hidden rather than too little.
"""

import html
import json
import os
import re
from collections.abc import Mapping
from itertools import groupby
from urllib.parse import quote, quote_plus

SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
"""Names of environment variables whose values are redacted."""
MIN_SECRET_LENGTH = 8
"""Shorter values are not redacted: replacing ``0`` or ``none`` would make a log unreadable."""
HOST = r"""(?:\[[\w:.%]+\]|[\w.-]*)(?::\d*)?(?:[/?#"<>`\\]|[,;:!?.)\]]*(?:\s|$))"""
"""``host``, ``host:port`` or ``[ipv6]:port`` up to the end of the authority (RFC 3986, 3.2); an ``@`` after it does not count."""
USERINFO_IN_TEXT = re.compile(rf"(?<=://)(?!{HOST})\S*@")
USERINFO_OF_ADDRESS = re.compile(rf"(?<=://)(?!{HOST})[^\n]*@")


def redact_addresses(text: str) -> str:
    """Return the text with ``***`` for the userinfo of each address (``scheme://user:password@host``).

    Userinfo ends at the last ``@`` before a space, so that a password may hold ``@``, and ``/`` where no port number precedes it.
    """
    return USERINFO_IN_TEXT.sub("***@", text)


def redact_address(address: str) -> str:
    """Redact a string that is one address, or one option with an address; its password may contain spaces."""
    return USERINFO_OF_ADDRESS.sub("***@", address)


def redact_environment(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the text with ``***`` for the value of every environment variable named like a secret, escaped ones included."""
    values = {value for name, value in environment.items() if SECRET_NAME.search(name.upper())}
    spellings = {spelling for value in values if len(value) >= MIN_SECRET_LENGTH for spelling in _spellings(value)}
    for spelling in sorted(spellings, key=len, reverse=True):  # a secret may begin with a shorter one
        text = text.replace(spelling, "***")
    return text


def redact_key(text: str, key: str) -> str:
    """Return the text with ``***`` for every ``MIN_SECRET_LENGTH`` consecutive characters of the key, escaped ones included.

    Services repeat parts of a key ("Incorrect API key: sk-abc...wxyz"). A shorter key is not a secret.
    """
    size = MIN_SECRET_LENGTH
    spellings = _spellings(key) if len(key) >= size else ()
    runs = {spelling[start : start + size] for spelling in spellings for start in range(len(spelling) - size + 1)}
    if not any(run in text for run in runs):
        return text
    matches = re.finditer(f"(?={'|'.join(map(re.escape, runs))})", text)  # a lookahead, because matches may overlap
    hidden = {match.start() + offset for match in matches for offset in range(size)}
    parts = groupby(enumerate(text), key=lambda place: place[0] in hidden)
    return "".join("***" if is_hidden else "".join(letter for _, letter in part) for is_hidden, part in parts)


def _spellings(secret: str) -> set[str]:
    """Return a secret as it stands in plain text, JSON (also JSON in JSON), Python literals, addresses and HTML."""
    as_json = [json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    nested = [json.dumps(text)[1:-1] for text in as_json]
    addresses = [quote(secret), quote(secret, safe=""), quote_plus(secret)]
    pages = [html.escape(secret), html.escape(secret, quote=False)]
    return {secret, repr(secret)[1:-1], *as_json, *nested, *addresses, *pages}
