"""The bank of training pictures, each drawn once, at the model's size; equal seeds give equal bytes.

The demo generator draws them, but not with the demo's seed: training seeds are below ``HELD_OUT``, examination seeds start
there.
"""

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from envs import SCENARIOS
from envs.sample_line import parse_sample
from envs.types import ImageRef, Mode, Sample, State
from proactive_demo.drawing import CATEGORIES
from proactive_demo.drawing import draw_sample as demo_sample
from proactive_demo.drawing.entries import DemoSample
from proactive_demo.drawing.quality import CORRUPTIONS
from proactive_demo.embedded.training import target_policy

SIDE = 64
"""Width and height of what the model sees, in pixels."""
LONGEST = 128
"""The processor first brings the longer side to this many pixels, then squares the picture."""
FIRST_SEED, HELD_OUT = 1000, 900_000
LAP = 40
"""Samples drawn per scenario and seed: at most the number of ids of the smallest scenario (VSOD)."""
LONGEST_PATH = 14
"""Maximum number of states on a path."""
NAMES = sorted(CATEGORIES)


@dataclass(frozen=True, slots=True)
class BankView:
    """One picture of the bank."""

    state: State
    row: int
    share: float
    """Visible share of the object, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Play:
    """A sample with the views on its path, which is that of a player who asks until no suggestion is left."""

    sample: Sample
    path: tuple[BankView, ...]
    reference: BankView

    @property
    def category(self) -> int:
        """Index into ``NAMES``; -1 if the sample is about counting."""
        name = self.sample.answer.rstrip(".")
        return NAMES.index(name) if name in CATEGORIES else -1

    @property
    def count(self) -> int:
        """The number to count; 0 if the sample is not about counting."""
        number = self.sample.answer.rstrip(".")
        return int(number) if number.isdigit() else 0

    @property
    def corruption(self) -> int:
        """Index into ``CORRUPTIONS``; -1 outside IN-C."""
        return next((k for k, name in enumerate(CORRUPTIONS) if f"/{name}/" in self.sample.image), -1)


@dataclass(frozen=True, slots=True)
class Bank:
    """All pictures, uint8 of shape [n, SIDE, SIDE, 3], and the plays that point into them."""

    pixels: np.ndarray
    plays: tuple[Play, ...]


def parse_demo(demo: DemoSample) -> Sample:
    """Return a sample of the demo as the game's sample."""
    return parse_sample(json.dumps(demo.entry), demo.scenario)


def shrink(picture: Image.Image) -> Image.Image:
    """Resize a picture as the saved processor does: longer side to LONGEST, then SIDE x SIDE, both by Lanczos."""
    width, height = picture.size
    ratio = width / height
    size = (LONGEST, _even(LONGEST / ratio)) if width >= height else (_even(LONGEST * ratio), LONGEST)
    rgb = picture.convert("RGB")
    return rgb.resize(size, Image.Resampling.LANCZOS).resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def _even(pixels: float) -> int:
    return max(1, int(pixels) + int(pixels) % 2)


def picture_of(demo: DemoSample, image: ImageRef) -> Image.Image:
    """Return the picture that a view names, cropped, at full size."""
    picture = demo.picture(image.path)
    if image.crop is None:
        return picture
    left, top, right, bottom = (round(edge) for edge in image.crop)
    return picture.crop((max(0, left), max(0, top), max(left + 1, right), max(top + 1, bottom)))


def walk_states(sample: Sample) -> tuple[State, ...]:
    """Return the states of a player who asks until no suggestion is left, at most LONGEST_PATH."""
    game = SCENARIOS[sample.scenario]
    state, states = game.initial(sample), list[State]()
    while state.ending is None and len(states) < LONGEST_PATH:
        states.append(state)
        ask = target_policy.path_request(sample, state, game.view(sample, state))
        if ask is None:
            break
        was_clear = sample.frames > 1 and len(states) > 1 and state.frame == sample.reference_frame
        state, _ = game.step(sample, state, ask)
        if was_clear:
            break
    return tuple(states)


def draw_play(scenario: str, index: int, seed: int) -> tuple[Sample, list[tuple[State, float]], list[np.ndarray]]:
    """Draw one sample: its states (the reference last) with the visible share, and its small pictures."""
    demo = demo_sample(scenario, index, seed)
    sample = parse_demo(demo)
    game = SCENARIOS[scenario]
    states = [*walk_states(sample), game.initial(sample, Mode.REFERENCE)]
    shares, pixels = list[tuple[State, float]](), list[np.ndarray]()
    for state in states:
        image = game.view(sample, state).image
        shares.append((state, demo.view_visibility(image.path, image.crop)))
        pixels.append(np.asarray(shrink(picture_of(demo, image))))
    return sample, shares, pixels


def draw_lap(job: tuple[str, int, int]) -> list[tuple[Sample, list[tuple[State, float]], np.ndarray]]:
    """Draw all plays of one scenario and seed."""
    scenario, seed, count = job
    plays = (draw_play(scenario, index, seed) for index in range(count))
    return [(sample, shares, np.stack(pixels)) for sample, shares, pixels in plays]


def draw_bank(folder: Path, laps: int, first_seed: int, count: int = LAP, workers: int = 2) -> Bank:
    """Draw ``laps`` x ``count`` plays of each scenario into ``folder``, or open the bank that is there."""
    index = folder / "plays.pickle"
    if not index.exists():
        folder.mkdir(parents=True, exist_ok=True)
        jobs = [(scenario, first_seed + k, count) for k in range(laps) for scenario in SCENARIOS]
        with (folder / "pixels.raw").open("wb") as file, ProcessPoolExecutor(workers) as pool:
            plays = tuple(_store(file, pool.map(draw_lap, jobs)))
        index.write_bytes(pickle.dumps(plays))
    plays = pickle.loads(index.read_bytes())
    flat = np.memmap(folder / "pixels.raw", np.uint8, "r")
    return Bank(flat.reshape(-1, SIDE, SIDE, 3), plays)


def _store(
    file: BinaryIO, laps: Iterator[list[tuple[Sample, list[tuple[State, float]], np.ndarray]]]
) -> Iterator[Play]:
    row = 0
    for plays in laps:
        for sample, shares, pixels in plays:
            file.write(pixels.tobytes())
            views = [BankView(state, row + k, share) for k, (state, share) in enumerate(shares)]
            row += len(views)
            yield Play(sample, tuple(views[:-1]), views[-1])
