"""A real chat-completions service on a free loopback port; each test supplies the answer to each request."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

Answer = tuple[int, dict[str, str], Any]
"""Status, headers, body as JSON, or as bytes; a ``connection`` header ends the connection afterwards."""
HANG: Answer = (0, {}, None)
"""Take the request and never answer."""


@dataclass
class Service:
    """The service's state, its address, and the requests it got."""

    answer: Callable[[int, dict[str, Any]], Answer]
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    busiest: int = 0
    busy: int = 0
    delay: float = 0.0
    models: tuple[str, ...] = ()
    """Names of the models that it lists; without any it has no list."""
    context: int | None = None
    """The context that it lists of each."""
    together: int = 1
    """Nobody is answered before so many wait at once."""
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._serve_request(_headers(head), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _serve_request(
        self, headers: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if "content-length" not in headers:  # a GET of the list of models
            listed = json.dumps(
                {"data": [{"id": name, "max_model_len": self.context} for name in self.models]}
            ).encode()
            status = b"200" if self.models else b"404"
            writer.write(b"HTTP/1.1 %s X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(listed), listed))
            return
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.times.append(monotonic())
        self.keys.append(headers.get("authorization", ""))
        self.bodies.append(body)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        status, extra, content = self.answer(len(self.bodies) - 1, body)
        if self.busy >= self.together:
            self.enough.set()
        await self.enough.wait()
        await asyncio.sleep(3600 if status == 0 else self.delay)
        self.busy -= 1
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        lines = {"content-type": "application/json", "content-length": str(len(text)), **extra}
        writer.write(f"HTTP/1.1 {status} X\r\n".encode())
        writer.write("".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode() + b"\r\n" + text)
        await writer.drain()
        if "connection" in extra:
            raise ConnectionError("as the answer says")


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


@asynccontextmanager
async def serving(answer: Callable[[int, dict[str, Any]], Answer], delay: float = 0.0) -> AsyncIterator[Service]:
    """Run the service for the duration of the block."""
    service = Service(answer, delay=delay)
    connections: set[asyncio.Task[None]] = set()

    def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(service.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(on_connect, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield service
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@contextmanager
def service(answer: Callable[[int, dict], Answer], delay: float = 0.0) -> Iterator[Service]:
    """Run the service in a thread for the duration of the block."""
    started, loop, holder = threading.Event(), asyncio.new_event_loop(), []

    async def serve() -> None:
        async with serving(answer, delay) as running:
            holder.extend((running, asyncio.Event()))
            started.set()
            await holder[1].wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(30)
    try:
        yield holder[0]
    finally:
        loop.call_soon_threadsafe(holder[1].set)
        thread.join(30)
        loop.close()


def completion(text: str | None, finish: str = "stop", refusal: str | None = None) -> Answer:
    """Return an ordinary answer: 100 prompt tokens, 10 reply tokens."""
    prompt, reply = 100, 10
    message = {"role": "assistant", "content": text, "refusal": refusal}
    usage = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    return 200, {}, body


def failure(status: int, code: str = "", message: str = "no", **headers: str) -> Answer:
    """Return an error in OpenAI's format; header names are written with underscores."""
    renamed = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, renamed, {"error": {"message": message, "type": "error", "code": code or None}}
