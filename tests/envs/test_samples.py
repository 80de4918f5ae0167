"""Every line is checked: a bad one is one sentence with file and line, a good one is kept whole."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.sample_line import BadSample, parse_sample
from envs.samples import BadData, limit_samples, load_samples, paper_ids, read_samples, select_samples

ENTRY = {
    "id": 3, "image_template": "Realistic-Occlusion-Dataset/rod_1/banana/s{image}.jpg", "first_image": 7, "num_images": 14,
    "prompt": "What is behind the blocks?", "reference_image": 0, "attribute": "brownc", "answer": "Banana.",
    "options": ["I cannot answer this question.", "Move the blue blocks to the left.", "Move the blue blocks to the right."],
    "categories": ["Skillet.", "Baseball.", "Banana.", "Screwdriver."],
}  # fmt: skip
FILE = "Realistic-Occlusion-Dataset_preprocessed.jsonl"


def line(**changes) -> str:
    return json.dumps({**ENTRY, **changes})


def write_lines(folder: Path, *lines: str | bytes) -> Path:
    encoded = (text if isinstance(text, bytes) else text.encode() for text in lines)
    folder.joinpath(FILE).write_bytes(b"\n".join(encoded) + b"\n")
    return folder


def test_a_good_line_keeps_every_field(tmp_path):
    sample = parse_sample(line(), "ROD")

    assert sample.extra == {"attribute": "brownc"}
    assert (sample.first_frame, sample.frames, sample.reference_frame) == (7, 14, 0)
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert sample.digest == "9a2c1e4a6b1e3475", "stored episodes are found again by it"
    assert parse_sample(line(attribute="other"), "ROD").digest != sample.digest, "content is part of the key"
    reversed_entry = dict(reversed(ENTRY.items()))
    assert parse_sample(json.dumps(reversed_entry), "ROD").digest == sample.digest, "order of fields is not"


BAD = {
    "more options than letters": line(options=["I cannot."] + ["Move it to the left."] * 30),
    "not JSON": "{",
    "deep": "[" * 100_000,
    "a list": "[]",
    "NaN": line(id=0).replace('"id": 0', '"id": NaN'),
    "missing field": json.dumps({k: v for k, v in ENTRY.items() if k != "answer"}),
    "text id": line(id="3"),
    "true id": line(id=True),
    "negative frame": line(first_image=-1),
    "no frames": line(num_images=0),
    "options a text": line(options="A"),
    "option a number": line(options=[1, "I cannot."]),
    "answer elsewhere": line(answer="Apple."),
    "an earlier category like the answer": line(categories=["banana.", "Banana.", "C d.", "E f."]),
    "no suggestion": line(options=["I cannot answer."]),
    "option outside the action space": line(options=["I cannot answer.", "Rewind the video."]),
    "option with two moves": line(options=["I cannot answer.", "Move to the left or to the right."]),
    "absolute": line(image_template="/etc/passwd"),
    "upwards": line(image_template="a/../../s{image}.jpg"),
    "backslash": line(image_template="a\\..\\{image}.jpg"),
    "drive": line(image_template="c:/x{image}.jpg"),
    "attribute access": line(image_template="a/{image.__class__}.jpg"),
    "format": line(image_template="a/{image:>999999999}.jpg"),
    "conversion": line(image_template="a/{image!r}.jpg"),
    "unknown placeholder": line(image_template="a/{level}.jpg"),
    "open brace": line(image_template="a/{.jpg"),
    "line break in a path": line(image_template="a\n\x1b[31m{image}.jpg"),
    "endless path": line(image_template="a/" * 100_000 + "{image}.jpg"),
    "endless answer": line(answer="x" * 900_000),
    "nested where nobody looks": line(attribute=None).replace("null", "[" * 400 + "]" * 400),
    "nested where a text belongs": line(prompt=None).replace("null", "[" * 600 + "]" * 600),
    "infinite": line(attribute=None).replace("null", "1e999"),
    "no 64 bits": line(id=10**30),
    "4,301 digits": line(attribute=None).replace("null", "9" * 4301),
    "frame beyond 32 bits": line(first_image=2**40),
    "endless game": line(num_images=999_999),
    "half a character": line(prompt="\ud800"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_one_sentence(name, tmp_path):
    with pytest.raises(BadSample) as reason:
        parse_sample(BAD[name], "ROD")
    assert "\n" not in str(reason.value) and len(str(reason.value)) < 500

    samples, problems = read_samples(write_lines(tmp_path, line(id=1), BAD[name], line(id=2)), "ROD")
    assert [sample.id for sample in samples] == [1, 2], "the lines around it are read"
    assert str(problems[0]).startswith(f"{FILE}, line 2: ")


def test_binary_and_endless_lines_are_reported_and_skipped(tmp_path):
    marked, odd = b"\xef\xbb\xbf" + line(id=1).encode(), (b"\xff\xfe", b"x" * 3_000_000)
    samples, problems = read_samples(write_lines(tmp_path, marked, *odd, line(id=2) + "\r", "", line(id=2)), "ROD")

    assert [sample.id for sample in samples] == [1, 2]
    assert [problem.line for problem in problems] == [2, 3, 6]
    assert "occurs twice" in str(problems[2])


CIT = {**ENTRY, "image_template": "c/{image}.jpg", "options": ["Rewind the video.", "Wait for the object.", "I cannot."],
       "step_size": 2, "max_steps": 5}  # fmt: skip
COCO = {**ENTRY, "image_template": "coco2014/a.jpg", "options": ["Move the camera to the left.", "I cannot."],
        "direction": "left", "granularity": 3, "horizontal_step": 10.5, "vertical_step": 7,
        "crop": {"top": 1, "left": 2, "height": 30, "width": 40}}  # fmt: skip


@given(
    name=st.sampled_from(sorted(ENTRY)),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
)
def test_any_field_value_gives_a_sample_or_a_sentence(name, value):
    for scenario, entry in (("ROD", ENTRY), ("CIT", CIT), ("COCO", COCO)):
        try:
            sample = parse_sample(json.dumps({**entry, name: value}), scenario)
        except BadSample as reason:
            assert str(reason) and "\n" not in str(reason)
        else:
            assert pickle.loads(pickle.dumps(sample)) == sample


def test_pipe_folder_and_circular_link_are_reported(tmp_path):
    path = tmp_path / FILE
    for make, why in (
        (os.mkfifo, "not a file"),
        (os.mkdir, "not a file"),
        (lambda p: os.symlink(p, p), "cannot be read"),
    ):
        make(path)
        samples, problems = read_samples(tmp_path, "ROD")
        assert not samples and why in str(problems[0]) and len(problems) == 1
        path.rmdir() if path.is_dir() else path.unlink()


def test_weak_occlusion_is_whatever_python_holds_equal_to_false(tmp_path):
    lines = [line(id=n, strong_occlusions=mark) for n, mark in enumerate((False, 0, 0.0, True, None, "no"))]
    samples = load_samples(write_lines(tmp_path, *lines), "ROD")
    assert [sample.id for sample in samples] == [3, 4, 5], "as `==` in the package"


def test_a_link_that_leads_out_of_the_data_folder_is_refused(tmp_path):
    data_folder = tmp_path / "data"
    data_folder.mkdir()
    (tmp_path / "data2").mkdir()
    os.symlink(tmp_path, data_folder / "out")
    os.symlink("../data2", data_folder / "sibling")
    folders = ("out", "out/deeper", "out//x", "sibling", ".")
    lines = (line(id=n, image_template=f"{folder}/s{{image}}.jpg") for n, folder in enumerate(folders))
    samples, problems = read_samples(write_lines(data_folder, *lines), "ROD")

    assert [sample.id for sample in samples] == [4]
    assert all("leads out" in str(problem) for problem in problems)


def test_the_filter_keeps_the_7557_published_samples_and_drops_weak_occlusions(demo_data):
    assert sum(map(len, paper_ids().values())) == 7557
    assert {name: len(ids) for name, ids in paper_ids().items()} == {
        "ROD": 88, "VSOD": 42, "MVP-N": 2591, "IN-C": 1095, "QD": 2105, "CIT": 396, "COCO": 1240
    }  # fmt: skip
    lines = (demo_data / "OcclusionDataSet-MM20_preprocessed.jsonl").read_text().splitlines()
    strong = [json.loads(line_text)["id"] for line_text in lines if json.loads(line_text)["strong_occlusions"]]
    loaded = [sample.id for sample in load_samples(demo_data, "VSOD", filtered=False)]
    assert loaded == strong and len(strong) < len(lines), "weak occlusions are dropped without the filter, too"
    assert not all(sample.extra["strong_occlusions"] for sample in read_samples(demo_data, "VSOD")[0])


@given(sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)), seed=st.integers(0, 99))
def test_a_larger_limit_contains_the_smaller(sizes, seed):
    samples = [parse_sample(line(id=n), "ROD") for n in range(30)]
    small, large = (limit_samples(samples, size, seed) for size in sorted(sizes))

    assert {s.id for s in small} <= {s.id for s in large}
    assert [s.id for s in large] == sorted(s.id for s in large), "file order is kept"
    assert len(large) == min(30, max(sizes))


def test_ids_and_the_open_ended_subset(tmp_path):
    samples = [parse_sample(line(id=n), "ROD") for n in range(130)]
    shuffled = list(range(130))
    Random(0).shuffle(shuffled)

    subset = select_samples(samples, subset="open-ended")
    assert [s.id for s in subset] == shuffled[:100], "as the package's example draws them"
    assert [s.id for s in select_samples(samples, ids=[5, 2])] == [2, 5]
    assert len(select_samples(samples, limit=3, seed=1)) == 3
    with pytest.raises(BadData, match="997, 998, 999 and 1 more"):
        select_samples(samples, ids=range(995, 1001))
