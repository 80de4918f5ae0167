"""``data check``: lists every bad line and every missing or unreadable picture before a sweep starts.

Every picture that any episode can show is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from envs import SCENARIOS, installed_scenarios, is_scenario
from envs.bad_lines import Problem
from envs.frames import reachable_states
from envs.render import PictureHeader, Renderer, UnreadablePicture, crop_bounds
from envs.samples import BadData, is_evaluated, read_samples
from envs.types import ImageRef, Mode, Sample


@dataclass(frozen=True)
class Report:
    """The outcome of a check."""

    problems: tuple[Problem, ...]
    """Bad lines first, then bad pictures, scenario by scenario."""
    samples: dict[str, int]
    """Scenario -> good samples."""
    pictures: dict[str, int]
    """Scenario -> picture files that play can ask for."""
    headers: tuple[PictureHeader, ...] = ()
    """Of every readable picture file."""

    @property
    def ok(self) -> bool:
        """Return True if nothing is wrong."""
        return not self.problems

    def lines(self) -> Iterator[str]:
        """Return the lines to print: every problem, then the counts."""
        yield from map(str, self.problems)
        for name, count in self.samples.items():
            yield f"{name}: {count:,} samples, {self.pictures[name]:,} pictures"
        if self.headers:
            yield _describe_headers(self.headers)
        yield f"{len(self.problems):,} problems" if self.problems else "all good"


def check(folder: Path, scenarios: Sequence[str], filtered: bool = True, deep: bool = False) -> Report:
    """Check a data folder; ``deep`` decodes every picture, else its header is looked at.

    Raises BadData for a folder that is not there or a scenario that does not exist.
    """
    unknown = [name for name in scenarios if not is_scenario(name)]
    if unknown:
        raise BadData(f"there is no scenario {unknown[0]!r}; {', '.join((*SCENARIOS, *installed_scenarios()))} exist")
    if not folder.is_dir():
        raise BadData(
            f"there is no folder {folder}; `proactive-sweep data demo {folder}` draws a small benchmark there"
        )
    problems: list[Problem] = []
    samples, pictures = {}, {}
    headers: list[PictureHeader] = []
    renderer = Renderer(folder, cache_bytes=0)
    for name in scenarios:
        found, bad = read_samples(folder, name)
        chosen = [sample for sample in found if is_evaluated(sample, filtered)]
        wanted: dict[str, Sample] = {}
        for sample in chosen:
            refs = list(reachable_pictures(sample))
            bad += _crops(refs, sample)
            wanted.update((ref.path, sample) for ref in refs if ref.path not in wanted)
        for path, sample in wanted.items():
            try:
                headers.append(renderer.verify(path))
                if deep:
                    renderer.decode(path)
            except UnreadablePicture as reason:
                bad.append(_needed(reason, sample))
        problems += bad
        samples[name], pictures[name] = len(chosen), len(wanted)
    return Report(tuple(problems), samples, pictures, tuple(headers))


def reachable_pictures(sample: Sample) -> Iterator[ImageRef]:
    """Every picture that some run of right suggestions shows, and the reference."""
    game = SCENARIOS[sample.scenario]
    yield game.view(sample, game.initial(sample, Mode.REFERENCE)).image
    yield from (game.image(sample, state) for state in reachable_states(sample))


def _crops(refs: Sequence[ImageRef], sample: Sample) -> Iterator[Problem]:
    """Crops that no picture could have, told by their edges alone."""
    for ref in refs:
        try:
            if ref.crop is not None:
                crop_bounds(ref.crop, ref.path)
        except UnreadablePicture as reason:
            yield _needed(reason, sample)


def _describe_headers(headers: Sequence[PictureHeader]) -> str:
    modes = ", ".join(f"{count:,} {mode}" for mode, count in Counter(h.mode for h in headers).most_common())
    smallest, largest = (choose(headers, key=lambda h: h.size[0] * h.size[1]).size for choose in (min, max))
    sizes = f"{smallest[0]}x{smallest[1]} to {largest[0]}x{largest[1]} pixels"
    turned = sum(h.orientation != 1 for h in headers)
    note = f"; {turned:,} have an EXIF orientation, which is ignored as in the package" if turned else ""
    return f"pictures: {modes}; {sizes}{note}"


def _needed(reason: UnreadablePicture, sample: Sample) -> Problem:
    return Problem(str(reason), 0, f"needed by {sample.scenario} sample {sample.id}")
