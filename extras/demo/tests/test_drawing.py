"""The demo benchmark is the same to the byte for a seed, is played by the published package, and says what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat

from envs import SCENARIOS
from envs.types import Ending, Mode, State
from proactive_demo.drawing import CATEGORIES, DemoSample, draw, draw_sample, samples_per_scenario
from proactive_demo.drawing.camera import DIRECTIONS, HEIGHT, WIDTH
from proactive_demo.drawing.categories import drawing
from proactive_demo.drawing.entries import STEMS, published_ids
from proactive_demo.drawing.painting import paint
from proactive_demo.drawing.quality import CORRUPTIONS
from proactive_demo.embedded.training.pictures import parse_demo as as_sample
from tests.oracle import oracle_path, oracle_python

SAMPLES = 70
COMMON = {"id", "image_template", "first_image", "num_images", "prompt", "options", "categories", "answer"}
COMMON |= {"reference_image"}
OWN = {
    "ROD": {"attribute"},
    "VSOD": {"strong_occlusions"},
    "MVP-N": {"valid_images"},
    "IN-C": {"quality_answer"},
    "QD": set(),
    "CIT": {"step_size", "max_steps"},
    "COCO": {"direction", "granularity", "horizontal_step", "vertical_step", "crop"},
}
SILENT = re.compile("cannot|do not", re.IGNORECASE)
"""What makes an option an abstention."""
QUESTIONABLE = 0.25
"""A first view may show less than this share of the object."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("demo") / "data"
    draw(target, SAMPLES, 3)
    return target


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def entries(folder: Path, scenario: str) -> list[dict[str, Any]]:
    text = (folder / f"{STEMS[scenario]}_preprocessed.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def visibility(sample: DemoSample, state: State) -> float:
    """Return how much of the object the state's view shows; its picture must be among the sample's frames."""
    image = SCENARIOS[sample.scenario].view(as_sample(sample), state).image
    assert image.path in sample.views
    return sample.view_visibility(image.path, image.crop)


def visibility_while_asking(sample: DemoSample) -> list[float]:
    """Return the visibility of each view while asking, until the object is clear or no suggestion is left."""
    game, line = SCENARIOS[sample.scenario], as_sample(sample)
    state, views = game.initial(line), list[float]()
    wish = line.extra.get("quality_answer")
    while state.ending is None:
        views.append(visibility(sample, state))
        offered = game.view(line, state).options
        asks = [option for option in offered if not SILENT.search(option)]
        wish = wish if wish in asks else next(iter(asks), None)
        plain = views[-1] == 1.0 or wish is None or state.turn + 1 == game.limit(line)
        state, _ = game.step(line, state, line.answer if plain else wish)
    assert state.ending is Ending.CORRECT
    return views


def test_the_same_number_and_seed_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    counts = draw(tmp_path / "again", SAMPLES, 3)

    assert contents(tmp_path / "again") == contents(folder)
    assert sum(counts.values()) == SAMPLES


@pytest.mark.parametrize("scenario", list(STEMS))
def test_every_line_has_the_published_fields_and_well_formed_options(folder: Path, scenario: str) -> None:
    for line in entries(folder, scenario):
        assert set(line) == COMMON | OWN[scenario]
        assert len(set(line["categories"])) == 4 and line["answer"] in line["categories"]
        assert all(category.endswith(".") for category in line["categories"])
        assert sum(bool(SILENT.search(option)) for option in line["options"]) == 1
        assert "," not in "".join([*line["options"], *line["categories"]]), "published open answers are split by commas"


@pytest.mark.parametrize("scenario", list(STEMS))
def test_every_suggestion_means_exactly_one_move_of_its_scenario(folder: Path, scenario: str) -> None:
    cues = SCENARIOS[scenario].cue
    for line in entries(folder, scenario):
        for option in line["options"]:
            words = [word for word in cues if word in option.lower()]
            assert len(words) == (0 if SILENT.search(option) else 1), (option, words)


def test_the_published_filter_keeps_exactly_the_samples_asked_for(folder: Path) -> None:
    counts = Counter(
        scenario
        for scenario in STEMS
        for line in entries(folder, scenario)
        if line["id"] in published_ids()[scenario] and line.get("strong_occlusions", True)
    )

    assert counts == samples_per_scenario(SAMPLES)
    assert [line["strong_occlusions"] for line in entries(folder, "VSOD")].count(False) == 2


def test_some_scenarios_alone_can_be_drawn(tmp_path: Path) -> None:
    assert samples_per_scenario(6, ("COCO", "QD")) == {"QD": 3, "COCO": 3}
    assert draw(tmp_path / "two", 2, 1, ("COCO", "QD")) == {"QD": 1, "COCO": 1}
    assert len(list((tmp_path / "two").glob("*.jsonl"))) == 2


@pytest.mark.parametrize(("samples", "largest"), [(7, 1), (8, 2), (1000, 175), (7557, 2591)])
def test_samples_are_spread_evenly_until_the_ids_of_a_scenario_run_out(samples: int, largest: int) -> None:
    counts = samples_per_scenario(samples)

    assert sum(counts.values()) == samples
    assert max(counts.values()) == largest
    assert all(largest - count <= 2 or count == len(published_ids()[name]) for name, count in counts.items())


@pytest.mark.parametrize(
    ("samples", "scenarios", "reason"),
    [(0, list(STEMS), "1 to 7,557"), (7558, list(STEMS), "1 to 7,557"), (2, ["QDD"], "no scenario 'QDD'")],
)
def test_an_impossible_request_leaves_nothing(samples: int, scenarios: list[str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        draw(tmp_path / "data", samples, 0, scenarios)
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "own.txt").write_text("keep me")
    with pytest.raises(ValueError, match="is not empty"):
        draw(tmp_path, 7, 0)


@pytest.mark.parametrize("scenario", list(STEMS))
def test_the_first_view_hides_the_object_and_asking_reveals_it(scenario: str) -> None:
    for index in range(24):
        sample = draw_sample(scenario, index, 11)
        views = visibility_while_asking(sample)
        assert views[0] < QUESTIONABLE and views[-1] == 1.0 and len(views) > 1
        assert visibility(sample, SCENARIOS[scenario].initial(as_sample(sample), Mode.REFERENCE)) == 1.0


def test_all_directions_and_all_corruptions_occur() -> None:
    directions = {draw_sample("COCO", index, 0).entry["direction"] for index in range(len(DIRECTIONS))}
    remedies = {draw_sample("IN-C", index, 0).entry["quality_answer"] for index in range(len(CORRUPTIONS))}

    assert directions == set(DIRECTIONS)
    assert remedies == {corruption.suggestion for corruption in CORRUPTIONS.values()}


def test_crops_stay_inside_the_picture() -> None:
    game = SCENARIOS["COCO"]
    for index in range(90):
        line = as_sample(draw_sample("COCO", index, 1))
        state = game.initial(line)
        while state.ending is None:
            view = game.view(line, state)
            assert view.image.crop is not None
            left, top, right, bottom = view.image.crop
            assert 0 <= left < right <= WIDTH and 0 <= top < bottom <= HEIGHT
            state, _ = game.step(line, state, next((o for o in view.options if o.startswith("Move")), line.answer))


def test_every_category_has_an_outline_of_its_own_at_64_pixels() -> None:
    shapes = {
        name: paint(drawing(name, Random(0), turned=False), 64).getchannel("A").point(lambda v: 255 * (v > 127))
        for name in CATEGORIES
    }
    overlaps = {pair: overlap(shapes[pair[0]], shapes[pair[1]]) for pair in combinations(shapes, 2)}

    assert len(CATEGORIES) >= 24
    assert max(overlaps.values()) < 0.85, max(overlaps, key=lambda pair: overlaps[pair])


def overlap(a: Image.Image, b: Image.Image) -> float:
    """Intersection over union, 0 to 1, the better of the two as drawn and mirrored."""
    flipped = b.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return max(total(ImageChops.darker(a, outline)) / total(ImageChops.lighter(a, outline)) for outline in (b, flipped))


def total(mask: Image.Image) -> float:
    return ImageStat.Stat(mask).sum[0]


def test_the_published_package_plays_every_entry(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    python = oracle_python()
    if python is None:
        pytest.skip("the package's environment module nests quotes in f-strings: it needs Python >= 3.12")
    script = Path(__file__).with_name("play_with_package.py")
    search = {**os.environ, "PYTHONPATH": str(oracle_path(tmp_path_factory.mktemp("oracle")))}
    done = subprocess.run([python, str(script), str(folder)], env=search, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    played = json.loads(done.stdout)
    assert {name: totals["kept"] for name, totals in played.items()} == samples_per_scenario(SAMPLES)
    lines = {name: len(entries(folder, name)) for name in STEMS}
    assert {name: totals["lines"] for name, totals in played.items()} == lines
    assert played["COCO"]["directions"] == sorted(DIRECTIONS)
