"""The sentence of every bad line, the bounds of every rule, and the digest by which a line is stored."""

import json

import pytest

from envs.sample_line import BadSample, parse_sample
from envs.samples import (
    BadData,
    limit_samples,
    load_samples,
    open_ended_subset,
    read_samples,
    samples_by_id,
    select_samples,
)
from tests.envs.test_samples import BAD, CIT, COCO, ENTRY, FILE, line, write_lines

SENTENCES = {
    "more options than letters": "there are more than 32 options and categories, so two letters would read alike",
    "not JSON": "is not JSON",
    "deep": "is not JSON",
    "a list": "is not a JSON object but list",
    "NaN": "is not JSON: NaN is no number",
    "missing field": "the field 'answer' is missing",
    "text id": "id must be a whole number from 0 up, not '3'",
    "true id": "id must be a whole number from 0 up, not True",
    "negative frame": "first_image must be a whole number from 0 up, not -1",
    "no frames": "num_images must be 1 or more",
    "options a text": "options must be a non-empty list of texts, not 'A'",
    "option a number": "options must be a non-empty list of texts, not [1, 'I cannot.']",
    "answer elsewhere": "answer 'Apple.' is not among the categories",
    "an earlier category like the answer": "categories ['banana.', 'Banana.', 'C d.', 'E f.']: an"
    " earlier one reads like the answer 'Banana.',"
    " so no reply could tell them apart",
    "no suggestion": "options hold no suggestion, so there is nothing to ask for",
    "option outside the action space": "option 'Rewind the video.' stands for no move of ROD",
    "option with two moves": "option 'Move to the left or to the right.' holds more than one cue of ROD:"
    " 'to the left', 'to the right'",
    "absolute": "image_template '/etc/passwd' must be relative to the data folder",
    "upwards": "image_template 'a/../../s{image}.jpg' must not leave the data folder",
    "backslash": "image_template 'a\\\\..\\\\{image}.jpg' must be relative to the data folder",
    "drive": "image_template 'c:/x{image}.jpg' must be relative to the data folder",
    "attribute access": "image_template 'a/{image.__class__}.jpg' may hold only {image}, without formatting",
    "format": "image_template 'a/{image:>999999999}.jpg' may hold only {image}, without formatting",
    "conversion": "image_template 'a/{image!r}.jpg' may hold only {image}, without formatting",
    "unknown placeholder": "image_template 'a/{level}.jpg' may hold only {image}, without formatting",
    "open brace": "image_template 'a/{.jpg' may hold only {image}, without formatting",
    "line break in a path": "image_template 'a\\n\\x1b[31m{image}.jpg' must be at most 512 printable characters",
    "nested where nobody looks": "holds lists or objects more than 16 deep",
    "nested where a text belongs": "holds lists or objects more than 16 deep",
    "infinite": "holds the number 1e999, which is too large",
    "no 64 bits": "holds the number 1000000000000000000000000000000, which is beyond 9007199254740992",
    "frame beyond 32 bits": "first_image must be at most 1000000, not 1099511627776",
    "endless game": "an episode would last 999999 turns; a whole number from 1 to 10000 can be played",
    "half a character": "holds a lone surrogate (half a character), which UTF-8 cannot store",
    "endless path": f"image_template '{'a/' * 66}a/ ... {'/a' * 48}/{{image}}.jpg' must be at most 512 printable characters",
    "endless answer": f"answer '{'x' * 142} ... {'x' * 121}' is not among the categories",
    "4,301 digits": f"holds the number {'9' * 133} ... {'9' * 116}, which is beyond 9007199254740992",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_the_sentence_says_what_is_wrong_with_a_line(name):
    with pytest.raises(BadSample) as reason:
        parse_sample(BAD[name], "ROD")
    assert str(reason.value) == SENTENCES[name]


INC = {**ENTRY, "image_template": "i/{level}.jpg", "first_image": 5, "num_images": 5, "quality_answer": "Deblur it.",
       "options": ["Deblur it.", "I do not know."]}  # fmt: skip
MVPN = {**ENTRY, "image_template": "m/{informative}/{image}.png", "num_images": 2, "valid_images": [4, 1],
        "options": ["Rotate the object.", "I cannot."]}  # fmt: skip
VSOD = {
    **ENTRY,
    "image_template": "v/{image}.jpg",
    "options": ["Rewind the video.", "Wait for the object.", "I cannot."],
}
NUMBERS = "crop (top, left, height, width), horizontal_step and vertical_step must be numbers"
NO_DIRECTION = "names none of left, right, up, down, zoom"
NO_VIEWS = "valid_images must be a list of whole numbers from 0 to 1,000,000"
RULES = [
    ("CIT", CIT, {"step_size": 0}, "step_size must be a whole number above 0"),
    ("CIT", CIT, {"step_size": True}, "step_size must be a whole number above 0"),
    ("CIT", CIT, {"max_steps": 0}, "max_steps must be a whole number above 0"),
    ("CIT", CIT, {"max_steps": None}, "max_steps must be a whole number above 0"),
    ("CIT", CIT, {"max_steps": 1, "step_size": 1}, ""),
    ("CIT", CIT, {"max_steps": 10_000}, ""),
    ("CIT", CIT, {"max_steps": 10_001}, "an episode would last 10001 turns; a whole number from 1 to 10000 can be played"),
    ("CIT", CIT, {"options": ["Rewind it.", "Wait for the object.", "I cannot."]},
     "options must hold 'Rewind the video.' and one that says 'Wait for the'"),
    ("CIT", CIT, {"options": ["Rewind the video.", "Wait.", "I cannot."]},
     "options must hold 'Rewind the video.' and one that says 'Wait for the'"),
    ("COCO", COCO, {"direction": 3}, f"direction 3 {NO_DIRECTION}"),
    ("COCO", COCO, {"direction": "north"}, f"direction 'north' {NO_DIRECTION}"),
    ("COCO", COCO, {"granularity": 0}, "granularity 0 must be a whole number from 1 up"),
    ("COCO", COCO, {"granularity": 1.5}, "granularity 1.5 must be a whole number from 1 up"),
    ("COCO", COCO, {"granularity": True}, "granularity True must be a whole number from 1 up"),
    ("COCO", COCO, {"granularity": "3"}, "granularity '3' must be a whole number from 1 up"),
    ("COCO", COCO, {"granularity": 1}, ""),
    ("COCO", COCO, {"granularity": 3.0}, ""),
    ("COCO", COCO, {"crop": None}, NUMBERS),
    *(("COCO", COCO, {"crop": {**COCO["crop"], edge: "1"}}, NUMBERS) for edge in ("top", "left", "height", "width")),
    *(("COCO", COCO, {name: None}, NUMBERS) for name in ("horizontal_step", "vertical_step")),
    ("IN-C", INC, {"quality_answer": "Paint it."}, "quality_answer 'Paint it.' is not among the options"),
    ("IN-C", INC, {"quality_answer": "I do not know."}, "option 'I do not know.' stands for no move of IN-C"),
    ("IN-C", INC, {}, ""),
    ("MVP-N", MVPN, {"valid_images": 4}, NO_VIEWS),
    ("MVP-N", MVPN, {"valid_images": [4, "1"]}, NO_VIEWS),
    ("MVP-N", MVPN, {"valid_images": [4, True]}, NO_VIEWS),
    ("MVP-N", MVPN, {"valid_images": [4, -1]}, NO_VIEWS),
    ("MVP-N", MVPN, {"valid_images": [4, 1_000_001]}, NO_VIEWS),
    ("MVP-N", MVPN, {"valid_images": [0, 1_000_000]}, ""),
    ("MVP-N", MVPN, {"valid_images": [4]}, "valid_images names 1 views, but num_images is 2"),
    ("MVP-N", MVPN, {"valid_images": []}, ""),
    ("MVP-N", MVPN, {"options": ["Rotate it to a different view.", "I cannot."]}, ""),
    ("QD", ENTRY, {"options": ["Add details to the drawing.", "I cannot."]},
     "option 'Add details to the drawing.' holds more than one cue of QD: 'details', 'drawing'"),
    ("VSOD", VSOD, {}, ""),
    ("ROD", ENTRY, {"first_image": 1_000_000}, ""),
    ("ROD", ENTRY, {"first_image": 1_000_001}, "first_image must be at most 1000000, not 1000001"),
    ("ROD", ENTRY, {"id": 1 << 53}, ""),
    ("ROD", ENTRY, {"attribute": -(1 << 53) - 1}, "holds the number -9007199254740993, which is beyond 9007199254740992"),
    ("ROD", ENTRY, {"num_images": 1}, ""),
    ("ROD", ENTRY, {"categories": [*ENTRY["categories"], *(f"c{n}." for n in range(25))]}, ""),
    ("ROD", ENTRY, {"categories": [*ENTRY["categories"], *(f"c{n}." for n in range(26))]},
     "there are more than 32 options and categories, so two letters would read alike"),
    ("ROD", ENTRY, {"image_template": "a" * 505 + "{image}"}, ""),
    ("ROD", ENTRY, {"image_template": "~/{image}"}, "image_template '~/{image}' must be relative to the data folder"),
    ("ROD", ENTRY, {"image_template": "a/b:c/{image}"}, ""),
    ("ROD", ENTRY, {"prompt": ""}, "prompt must be a non-empty text, not ''"),
    ("ROD", ENTRY, {"answer": None}, "answer must be a non-empty text, not None"),
    ("ROD", ENTRY, {"categories": []}, "categories must be a non-empty list of texts, not []"),
]  # fmt: skip


@pytest.mark.parametrize(("scenario", "entry", "change", "sentence"), RULES)
def test_each_rule_of_a_line_holds_to_its_bound(scenario, entry, change, sentence):
    try:
        parse_sample(json.dumps({**entry, **change}), scenario)
        reason = ""
    except BadSample as error:
        reason = str(error)

    assert reason == sentence


def test_lists_may_be_sixteen_deep():
    assert parse_sample(line(attribute=None).replace("null", "[" * 15 + "]" * 15), "ROD").id == 3
    with pytest.raises(BadSample, match="more than 16 deep"):
        parse_sample(line(attribute=None).replace("null", "[" * 16 + "]" * 16), "ROD")


def test_the_digest_of_a_line_is_the_one_in_stored_keys():
    assert parse_sample(line(), "ROD").digest == "9a2c1e4a6b1e3475"


def test_a_line_of_a_mebibyte_is_too_long_and_a_shorter_one_is_read(tmp_path):
    fits = line(id=0)[:-1] + ", " + " " * ((1 << 20) - len(line(id=0)) - 18) + '"attribute": 1}'
    samples, problems = read_samples(write_lines(tmp_path, fits, b"\xff", " " + fits + " ", line(id=1)), "ROD")

    assert [sample.id for sample in samples] == [0, 1]
    assert list(map(str, problems)) == [
        f"{FILE}, line 2: is not UTF-8 text", f"{FILE}, line 3: is longer than 1048576 bytes",
    ]  # fmt: skip


def test_a_folder_without_what_is_asked_for_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(BadData) as missing:
        load_samples(tmp_path, "ROD")
    assert str(missing.value) == (
        f"{tmp_path / FILE}: is not there; `proactive-sweep data demo DIR` draws a small benchmark"
    )
    write_lines(tmp_path, line(id=10**6, strong_occlusions=False))
    with pytest.raises(
        BadData, match=r"holds no sample that the paper's filter keeps; type --set selection\.filtered=false$"
    ):
        load_samples(tmp_path, "ROD")
    with pytest.raises(BadData, match=r"holds no sample with strong occlusion$"):
        load_samples(tmp_path, "ROD", filtered=False)
    write_lines(tmp_path, "{", "{", line(id=10**6))
    with pytest.raises(BadData) as bad:
        load_samples(tmp_path, "ROD")
    assert str(bad.value) == (
        f"{FILE}, line 1: is not JSON (and 1 more: `proactive-sweep data check {tmp_path}` lists them); correct the file,"
        " or type --skip-bad (in a sweep file: skip_bad = true) to leave 2 bad lines out"
    )


def test_a_selection_takes_the_subset_then_the_ids_then_the_limit():
    samples = [parse_sample(line(id=n), "ROD") for n in range(130)]
    subset = [s.id for s in open_ended_subset(samples)]

    assert select_samples(samples) == samples
    assert [s.id for s in select_samples(samples, subset="open-ended")] == subset
    assert [s.id for s in select_samples(samples, ids=subset[:4], subset="open-ended")] == subset[:4]
    assert select_samples(samples, limit=5) == limit_samples(samples, 5, 0)
    with pytest.raises(BadData, match=r"^ROD has no sample with id 995, 996, 997, 998, 999 in this selection$"):
        samples_by_id(samples, range(995, 1000))
    with pytest.raises(BadData, match=r"^an empty scenario has no sample with id 3 in this selection$"):
        samples_by_id([], [3])
