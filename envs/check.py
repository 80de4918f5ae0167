"""``data check``: lists every bad line and every unreadable picture that an episode can show, before a sweep starts."""

import shlex
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs import SCENARIOS, regular
from envs.plural import pluralize
from envs.render import Renderer, UnreadablePicture, crop_bounds
from envs.samples import BadData, Problem, is_evaluated, lines_file, read_samples
from envs.scenario import LastImageSettles, suggestions
from envs.types import ImageRef, Mode, Sample, State

FOREIGN = {
    "a pointer of Git LFS, not the file: fetch it with `git lfs pull`": (b"version https://git-lfs",),
    "an HTML page, such as a login or an error: download the file again": (b"<!doctype html", b"<html"),
    "a HEIC picture, which the package cannot read: save it as JPEG or PNG": (b"ftypheic", b"ftypmif1"),
}
"""What a file often is instead -> the first bytes that show it."""


@dataclass(frozen=True)
class Report:
    """The outcome of a check."""

    problems: tuple[Problem, ...]
    samples: dict[str, int]
    """Scenario -> good samples."""
    pictures: dict[str, int]
    """Scenario -> number of picture files that play can show."""

    @property
    def ok(self) -> bool:
        return not self.problems

    def lines(self) -> Iterator[str]:
        """Yield the lines to print: every problem, then the counts."""
        yield from map(str, self.problems)
        for name, count in self.samples.items():
            yield f"{name}: {pluralize(count, 'sample')}, {pluralize(self.pictures[name], 'picture')}"
        yield pluralize(len(self.problems), "problem") if self.problems else "all good"


def check(folder: Path, scenarios: Sequence[str], filtered: bool = True, deep: bool = False) -> Report:
    """Check a data folder; ``deep`` decodes pictures instead of only reading their headers.

    Raises BadData for a missing folder.
    """
    if not folder.is_dir():
        remedy = f"`proactive-sweep data demo {shlex.quote(str(folder))}` draws a small benchmark there"
        raise BadData(f"there is no folder {folder}; {remedy}")
    problems: list[Problem] = []
    counts: dict[str, int] = {}
    pictures: dict[str, int] = {}
    renderer = Renderer(folder, cache_bytes=0)
    for name in scenarios:
        path, (samples, bad_lines) = lines_file(folder, name), read_samples(folder, name)
        problems += [_name_content(problem, path) for problem in bad_lines]
        for sample in samples:
            problems += [Problem(path.name, 0, f"sample {sample.id} {reason}") for reason in find_ambiguities(sample)]
        evaluated = [sample for sample in samples if is_evaluated(sample, filtered)]
        if not evaluated and not bad_lines:
            kind = " that the paper's filter keeps (--unfiltered checks the others)" if samples and filtered else ""
            problems.append(Problem(path.name, 0, f"holds no sample{kind}"))
        opened = set[str]()
        for sample, ref in ((each, ref) for each in evaluated for ref in reachable_pictures(each)):
            try:
                if ref.crop is not None:
                    crop_bounds(ref.crop, ref.path)
                if ref.path not in opened:
                    opened.add(ref.path)
                    renderer.verify(ref.path, deep)
            except UnreadablePicture as reason:
                problem = Problem(str(reason), 0, f"needed by {sample.scenario} sample {sample.id}")
                problems.append(_name_content(problem, folder / ref.path))
        counts[name], pictures[name] = len(evaluated), len(opened)
    return Report(tuple(problems), counts, pictures)


def reachable_pictures(sample: Sample) -> Iterator[ImageRef]:
    """Yield the reference picture and every picture that right suggestions lead to."""
    game = SCENARIOS[sample.scenario]
    yield game.view(sample, game.initial(sample, Mode.REFERENCE)).image
    yield from (game.image(sample, state) for state in reachable_states(sample))


def find_ambiguities(sample: Sample) -> Iterator[str]:
    """Yield why a reply to a sample that can be played would not tell what the model means."""
    abstentions = [option for option in sample.options if option not in suggestions(sample.options)]
    if len(abstentions) != 1:
        yield f"has {len(abstentions)} options that abstain; a question has one"
    texts = [_normalize(category) for category in sample.categories]
    if alike := next((text for text in texts if texts.count(text) > 1), ""):
        yield f"has two categories that read alike: {alike!r}"
    if common := next((option for option in sample.options if _normalize(option) in texts), ""):
        yield f"has {common!r} as an option and as a category"
    if sample.scenario == "ROD" and sample.frames == 1:
        yield "has one picture, so moving the blocks shows nothing else"


def _normalize(text: str) -> str:
    """Return a text without differences of case, blanks and composed letters."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _name_content(problem: Problem, path: Path) -> Problem:
    """Return the problem with what an unreadable file is instead, if its first bytes say so."""
    try:
        with regular.open_file(path) as file:
            start = file.read(64).lower()
    except OSError:
        return problem
    name = next((name for name, marks in FOREIGN.items() if any(mark in start for mark in marks)), "")
    return replace(problem, reason=f"{problem.reason}; {path.name} is {name}") if name else problem


def reachable_states(sample: Sample) -> Iterator[State]:
    """Yield every distinct state of plain play that right suggestions lead to, by increasing distance from the first state."""
    game = SCENARIOS[sample.scenario]
    queue, visited = deque([game.initial(sample)]), set()
    while queue:
        state = queue.popleft()
        turn = state.turn if isinstance(game, LastImageSettles) else 0  # the last turn of these is special
        position = (state.frame, state.last, state.across, state.along, turn)
        if state.ending is not None or position in visited:
            continue
        visited.add(position)
        yield state
        queue += [game.step(sample, state, ask)[0] for ask in game.askable(sample, state)]
