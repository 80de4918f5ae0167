"""Names the proxy that a request takes."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from actors.text.redaction import redact_address


def describe_proxy(address: str) -> str:
    """Return `` through the proxy http://...``; empty if requests to this address take none."""
    parts, proxies = urlsplit(address), getproxies()
    proxy = "" if proxy_bypass(parts.hostname or "") else proxies.get(parts.scheme) or proxies.get("all", "")
    return f" through the proxy {redact_address(proxy)}" if proxy else ""
