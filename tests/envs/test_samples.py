"""Every line is checked: a bad one is one sentence with file and line, a good one is kept whole."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import SCENARIOS
from envs.samples import BadData, BadSample, kept, limited, load, named, open_ended, parse, read, select

ENTRY = {
    "id": 3, "image_template": "Realistic-Occlusion-Dataset/rod_1/banana/s{image}.jpg", "first_image": 7, "num_images": 14,
    "prompt": "What is behind the blocks?", "reference_image": 0, "attribute": "brownc", "answer": "Banana.",
    "options": ["I cannot answer this question.", "Move the blue blocks to the left.", "Move the blue blocks to the right."],
    "categories": ["Skillet.", "Baseball.", "Banana.", "Screwdriver."],
}  # fmt: skip
FILE = "Realistic-Occlusion-Dataset_preprocessed.jsonl"


def line(**changes) -> str:
    return json.dumps({**ENTRY, **changes})


def written(folder: Path, *lines: str | bytes) -> Path:
    folder.joinpath(FILE).write_bytes(
        b"\n".join(text if isinstance(text, bytes) else text.encode() for text in lines) + b"\n"
    )
    return folder


def test_a_good_line_keeps_every_field(tmp_path):
    sample = parse(line(), "ROD")

    assert sample.extra == {"attribute": "brownc"}
    assert (sample.first_frame, sample.frames, sample.reference_frame) == (7, 14, 0)
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert parse(line(attribute="other"), "ROD").digest != sample.digest, "content is part of the key"
    assert parse(json.dumps(dict(reversed(ENTRY.items()))), "ROD").digest == sample.digest, "order of fields is not"


BAD = {
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
    "categories alike": line(categories=["Banana.", "banana.", "C d.", "E f."]),
    "no abstention": line(options=["Move the blocks to the left."]),
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
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_one_sentence(name, tmp_path):
    with pytest.raises(BadSample) as reason:
        parse(BAD[name], "ROD")
    assert "\n" not in str(reason.value) and len(str(reason.value)) < 500

    samples, problems = read(written(tmp_path, line(id=1), BAD[name], line(id=2)), "ROD")
    assert [sample.id for sample in samples] == [1, 2], "the lines around it are read"
    assert str(problems[0]).startswith(f"{FILE}, line 2: ")


def test_bytes_that_are_no_text_and_lines_without_end_are_reported_and_passed_over(tmp_path):
    folder = written(
        tmp_path,
        b"\xef\xbb\xbf" + line(id=1).encode(),
        b"\xff\xfe",
        b"x" * 3_000_000,
        line(id=2) + "\r",
        "",
        line(id=2),
    )
    samples, problems = read(folder, "ROD")

    assert [sample.id for sample in samples] == [1, 2]
    assert [problem.line for problem in problems] == [2, 3, 6]
    assert "occurs twice" in str(problems[2])


def test_a_link_that_leads_out_of_the_data_folder_is_refused(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    os.symlink(tmp_path, data / "out")
    _, problems = read(written(data, line(image_template="out/s{image}.jpg")), "ROD")

    assert "leads out" in str(problems[0])


def test_load_says_what_is_wrong_and_how_to_see_the_rest(tmp_path):
    with pytest.raises(BadData, match="data demo"):
        load(tmp_path, "ROD")
    with pytest.raises(BadData, match=r"line 1: .* \(and 1 more: `proactive-sweep data check"):
        load(written(tmp_path, "{", "{"), "ROD")


def test_the_filter_keeps_the_7557_published_samples_and_drops_weak_occlusions(demo_data):
    assert sum(map(len, kept().values())) == 7557
    assert {name: len(ids) for name, ids in kept().items()} == {
        "ROD": 88, "VSOD": 42, "MVP-N": 2591, "IN-C": 1095, "QD": 2105, "CIT": 396, "COCO": 1240
    }  # fmt: skip
    assert len(load(demo_data, "VSOD", filtered=False)) > len(load(demo_data, "VSOD"))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_demo_is_read_without_a_problem(scenario, demo_data):
    samples, problems = read(demo_data, scenario)
    assert samples and not problems


@given(sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)), seed=st.integers(0, 99))
def test_a_larger_limit_contains_the_smaller(sizes, seed):
    samples = [parse(line(id=n), "ROD") for n in range(30)]
    small, large = (limited(samples, size, seed) for size in sorted(sizes))

    assert {s.id for s in small} <= {s.id for s in large}
    assert [s.id for s in large] == sorted(s.id for s in large), "file order is kept"
    assert len(large) == min(30, max(sizes))


def test_ids_and_the_open_ended_subset(tmp_path):
    samples = [parse(line(id=n), "ROD") for n in range(130)]
    shuffled = list(range(130))
    __import__("random").Random(0).shuffle(shuffled)

    assert [s.id for s in open_ended(samples)] == shuffled[:100], "as the package's example draws them"
    assert [s.id for s in named(samples, [5, 2])] == [2, 5]
    assert len(select(samples, limit=3, seed=1)) == 3
    with pytest.raises(BadData, match="no sample with id 999"):
        named(samples, [5, 999])
