"""A backend that answers with a function of the request."""

from collections.abc import Callable

from actors.engine.backend import Backend, Reply, Request


class ScriptedBackend(Backend):
    def __init__(self, answer: Callable[[Request], str]) -> None:
        self.answer = answer

    async def reply(self, request: Request) -> Reply:
        return Reply(self.answer(request))
