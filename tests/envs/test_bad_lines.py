"""A bad line refuses its file in one sentence, or is skipped, counted and named; an unreadable file is always refused."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from envs.bad_lines import SHOWN, Problem, parse_skipped_lines, refusal, skipped_lines, skipped_note
from envs.samples import BadData, load_samples
from tests.envs.test_samples import line, write_lines


def test_the_refusal_names_the_line_and_what_to_type(tmp_path):
    folder = write_lines(tmp_path, line(id=0), "{", line(id=1), "[]")

    with pytest.raises(BadData) as refusal:
        load_samples(folder, "ROD", filtered=False)
    assert "_preprocessed.jsonl, line 2: is not JSON (and 1 more: `proactive-sweep data check" in str(refusal.value)
    assert str(refusal.value).endswith(
        "correct the file, or type --skip-bad (in a sweep file: skip_bad = true) to leave 2 bad lines out"
    )


def test_skipped_lines_are_reported_and_good_lines_kept(tmp_path):
    """Of two lines with the same id, the first is played."""
    twice = line(id=1, prompt="Another question?")
    good, bad = [line(id=0), line(id=1)], ["{", twice, b"\xff", "x" * (1 << 20)]
    for name in ("clean", "mixed"):
        (tmp_path / name).mkdir()
    clean = load_samples(write_lines(tmp_path / "clean", *good), "ROD", filtered=False)
    skipped = []

    assert (
        load_samples(write_lines(tmp_path / "mixed", good[0], bad[0], good[1], *bad[1:]), "ROD", False, skipped)
        == clean
    )
    assert sorted(problem.line for problem in skipped) == [2, 4, 5, 6]


def test_missing_or_all_bad_file_is_still_refused(tmp_path):
    with pytest.raises(BadData, match="is not there; `proactive-sweep data demo DIR`"):
        load_samples(tmp_path, "ROD", skipped=[])
    with pytest.raises(BadData, match="holds no sample"):
        load_samples(write_lines(tmp_path, "{"), "ROD", skipped=[])


def test_record_of_skipped_lines_counts_and_identifies_them():
    bad = [Problem("f.jsonl", number, "is not JSON") for number in range(2, 2 + SHOWN + 4)]
    (record,) = skipped_lines({"ROD": bad, "QD": []})

    assert str(record) == (
        "7 bad lines of ROD: f.jsonl, line 2: is not JSON; f.jsonl, line 3: is not JSON; f.jsonl, line 4: is not JSON;"
        " and 4 more"
    )
    assert parse_skipped_lines(json.loads(json.dumps([asdict(record)]))) == (record,)
    reworded = skipped_lines({"ROD": [Problem("f.jsonl", problem.line, "cannot be read") for problem in bad]})[0]
    different = skipped_lines({"ROD": [*bad[:-1], Problem("f.jsonl", 99, "is not JSON")]})[0]
    assert record.identity == reworded.identity and record.identity != different.identity
    assert skipped_lines({"ROD": bad[:1]})[0].lines == 1 and str(skipped_lines({"ROD": bad[:1]})[0]).startswith(
        "1 bad line of"
    )


def test_unknown_sample_may_be_on_a_bad_line():
    assert skipped_note([]) == ""
    assert "(1 bad line of its file left out: `proactive-sweep data check`" in skipped_note([Problem("f", 3, "is bad")])


def test_what_a_run_folder_stores_of_skipped_lines():
    """Both the count and the hash are compared with the data of a later start."""
    bad = [Problem("f.jsonl", number, "is not JSON") for number in (2, 14)]

    assert skipped_lines({"ROD": bad})[0].identity == ("ROD", 2, "db18adcb662d4490")


def test_sentences_about_bad_lines():
    problems = [Problem("f.jsonl", number, "is not JSON") for number in range(2, 1_300)]

    assert skipped_note(problems) == (
        " (1,298 bad lines of its file left out: `proactive-sweep data check` lists them; f.jsonl, line 2: is not JSON)"
    )
    assert refusal(problems[:1], "data") == (
        "f.jsonl, line 2: is not JSON; correct the file, or type --skip-bad (in a sweep file: skip_bad = true) to leave 1 bad"
        " line out"
    )
    assert refusal([Problem("f.jsonl", 0, "is not there")], "data") == "f.jsonl: is not there"
    assert str(skipped_lines({"ROD": problems[:4]})[0]).endswith("; and 1 more")
    assert str(skipped_lines({"ROD": problems[:3]})[0]).endswith("line 4: is not JSON")
