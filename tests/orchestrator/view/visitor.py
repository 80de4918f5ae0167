"""Somebody who uses a page over HTTP as a browser would."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlsplit


class Visitor:
    """Follows redirects, and keeps the body of every response."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.path = parts.netloc, parts.path
        self.bodies: list[bytes] = []
        self.headers: dict[str, str] = {}
        self.page = ""

    def ask(self, method: str, path: str, headers=None, body: str | None = None) -> int:
        """Send one request with these headers alone; return its status."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent_headers = {"Host": self.host} | (headers or {})
        if body is not None:
            sent_headers |= {"Content-Length": str(len(body)), "Content-Type": "application/x-www-form-urlencoded"}
        for name, value in sent_headers.items():
            connection.putheader(name, value)
        connection.endheaders(None if body is None else body.encode())
        response = connection.getresponse()
        self.bodies.append(response.read())
        self.headers = dict(response.getheaders())
        connection.close()
        return response.status

    def look(self, query: str = "") -> str:
        """The page as it is now."""
        assert self.ask("GET", self.path + query) == 200
        self.page = self.bodies[-1].decode()
        return self.page

    def raw_status(self, line: str, headers: dict[str, str], body: str | bytes = "") -> int:
        """Send a request byte for byte, which no client would send, and return the status of the response."""
        head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": self.host, **headers}.items())
        content = body if isinstance(body, bytes) else body.encode()
        with socket.create_connection(self.host.split(":"), timeout=30) as connection:
            connection.sendall(f"{line} HTTP/1.1\r\n{head}\r\n".encode() + content)
            answer = connection.recv(4096)
        names = (line.split(b": ", 1) for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:])
        self.headers = {name.decode(): value.decode() for name, value in names}
        return int(answer.split()[1])
