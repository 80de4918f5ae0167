"""One sitting that several tests look at: all scenarios under three conditions, answered as the oracle would."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from sitting import CONDITIONS, oracle_turns, person, sitting

from actors.engine.backend import Request
from orchestrator.execution.score import AttemptOutcome
from sweeps.spec import Sweep


@dataclass(frozen=True)
class OpenQuestion:
    """What was asked, and what the page had of it."""

    request: Request
    texts: list[str]
    options: list[str]
    number: str
    page: str


@dataclass(frozen=True)
class Played:
    """A sitting that came to its end."""

    output: Path
    sweep: Sweep
    questions: list[OpenQuestion]
    last: str
    """The last page."""
    bodies: list[bytes]
    """Of every response."""
    outcome: AttemptOutcome | None


@pytest.fixture(scope="session")
def oracle_played(demo_data, tmp_path_factory) -> Played:
    output = tmp_path_factory.mktemp("play") / "ada"
    spec = person(demo_data, ",".join(CONDITIONS), limit=1, name="test")
    questions = []
    with sitting(spec, output) as session:
        visitor = session.visitor()
        for request, reply in oracle_turns(spec):
            questions.append(OpenQuestion(request, visitor.texts, visitor.options, visitor.number, visitor.page))
            visitor.say(reply)
    return Played(output, spec, questions, visitor.page, visitor.bodies, session.outcome)
