"""``data check`` finds every bad line and every picture that play could ask for and not get."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from envs import SCENARIOS
from envs.check import check, reachable_pictures
from envs.samples import load_samples
from envs.types import Mode


def test_the_demo_is_all_good_in_depth(demo_data):
    report = check(demo_data, list(SCENARIOS), deep=True)

    assert report.ok and list(report.lines())[-1] == "all good"
    assert sum(report.samples.values()) == 70


@pytest.fixture
def folder(demo_data, tmp_path):
    """Return a copy of the benchmark."""
    return Path(shutil.copytree(demo_data, tmp_path / "data"))


def test_missing_and_broken_pictures_and_bad_lines_are_all_listed(folder):
    sketches = sorted((folder / "QuickDraw").rglob("*.*"))
    sketches[0].unlink()
    sketches[-2].write_bytes(sketches[-2].read_bytes()[:60])
    Image.open(sketches[-1]).convert("RGB").save(sketches[-1], "JPEG")
    sketches[-1].write_bytes(sketches[-1].read_bytes()[:-200])  # its header is good
    with (folder / "QuickDraw_preprocessed.jsonl").open("a") as file:
        file.write("{}\n")
    report = check(folder, ["QD", "ROD"], deep=True)

    assert len(report.problems) == 4, list(report.lines())
    assert len(check(folder, ["QD", "ROD"]).problems) == 3, "what is not decoded is not found"
    assert "QuickDraw_preprocessed.jsonl, line 11: the field 'prompt' is missing" in list(report.lines())
    assert not report.ok


def test_a_crop_without_area_is_found_without_decoding(folder):
    path = folder / "coco2014_preprocessed.jsonl"
    first, *other_lines = path.read_text().splitlines()
    entry = json.loads(first)
    flat = {**entry, "crop": {**entry["crop"], "width": entry["crop"]["left"]}, "direction": "up", "granularity": 1,
            "options": ["Move the camera up.", "I cannot answer this question."]}  # fmt: skip
    path.write_text("\n".join([json.dumps(flat), *other_lines]) + "\n")
    report = check(folder, ["COCO"])

    assert [problem.reason for problem in report.problems] == [f"needed by COCO sample {entry['id']}"]
    assert "has no area" in next(report.lines())


def test_check_covers_every_reachable_picture(demo_data):
    """A thousand random right walks show no picture that ``reachable_pictures`` does not name."""
    from random import Random

    rng = Random(3)
    for name, game in SCENARIOS.items():
        for sample in load_samples(demo_data, name)[:6]:
            paths = {ref.path for ref in reachable_pictures(sample)}
            for _ in range(25):
                state = game.initial(sample, rng.choice((Mode.PLAY, Mode.PLAY, Mode.REFERENCE)))
                while state.ending is None:
                    assert game.view(sample, state).image.path in paths
                    state, _ = game.step(sample, state, rng.choice([*game.askable(sample, state), sample.answer]))


def edit_line(folder, stem, **changes):
    """Change fields of the first line of a data file."""
    path = folder / f"{stem}_preprocessed.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **changes}), *others]) + "\n")


@pytest.mark.parametrize(
    ("scenario", "changes", "words"),
    [
        ("QD", {"options": ["Add more details."]}, "0 options that abstain"),
        ("QD", {"options": ["Add more details.", "I cannot tell.", "I do not know."]}, "2 options"),
        ("QD", {"categories": ["Caf\u00e9.", "Cafe\u0301.", "Tree.", "Cup."], "answer": "Tree."}, "read alike"),
        ("QD", {"categories": ["Oak.", "oak. ", "Tree.", "Cup."], "answer": "Tree."}, "read alike"),
        ("QD", {"categories": ["I CANNOT tell.", "Tree."], "answer": "Tree.",
                "options": ["Add more details.", "I cannot tell."]}, "as an option and as a category"),
        ("ROD", {"num_images": 1}, "has one picture"),
    ],
)  # fmt: skip
def test_a_sample_that_no_reply_can_answer_is_a_problem(scenario, changes, words, folder):
    edit_line(folder, SCENARIOS[scenario].stem, **changes)

    assert any(words in str(problem) for problem in check(folder, [scenario], filtered=False).problems)


def test_a_file_of_which_the_filter_keeps_nothing_is_a_problem(folder):
    path = folder / "QuickDraw_preprocessed.jsonl"
    path.write_text(path.read_text().partition("\n")[0])
    edit_line(folder, "QuickDraw", id=10**6)

    assert check(folder, ["QD"], filtered=False).ok
    assert [problem.line for problem in check(folder, ["QD"]).problems] == [0]


def test_files_that_are_something_else_are_named(folder):
    contents = (b"version https://git-lfs.github.com/spec/v1\n", b"<!DOCTYPE html><p>log in", b"\0\0\0\x18ftypheic....")
    for path, content in zip(sorted((folder / "coco2014").rglob("*.*")), contents, strict=False):
        path.write_bytes(content)
    (folder / "QuickDraw_preprocessed.jsonl").write_bytes(contents[0])
    (folder / "ChangeIt_preprocessed.jsonl").write_bytes(b"")
    lines = list(map(str, check(folder, ["COCO", "QD", "CIT"], filtered=False).problems))

    for words in ("pointer of Git LFS", "HTML page", "HEIC picture"):
        assert any(words in line and "coco2014" not in words for line in lines), lines
    assert any(line.startswith("QuickDraw") and "git lfs pull" in line for line in lines)
    assert any(line == "ChangeIt_preprocessed.jsonl: holds no sample" for line in lines)
