"""Labels of options: lines that are only appended, a CSV file that round-trips, and agreement by a textbook's value."""

import csv

import pytest

from envs.errors import RunFolderError
from envs.samples import load_samples
from envs.scenario import suggestions
from orchestrator.gold.labels import parse_labels
from proactive_people.labels import (
    FILE,
    OptionLabel,
    agreements,
    append_labels,
    from_csv,
    read_bits,
    read_labels,
    to_csv,
)


def label(key="k1", labeler="ada", label="2", **more) -> OptionLabel:
    return OptionLabel(key=key, labeler=labeler, label=label, **more)


def test_the_newest_label_counts_and_torn_lines_are_skipped(tmp_path):
    append_labels(tmp_path, [label(label="0"), label(labeler="bo", label="none")])
    append_labels(tmp_path, [label(label="3", unsure=True, note='a, "b"\nc')])
    with (tmp_path / FILE).open("a") as file:
        file.write('{"key": "k2", "labeler": "ada", "label": "-1"}\n[]\n{"key": "k3", "lab')

    assert {name: each.label for (_, name), each in read_labels(tmp_path).items()} == {"ada": "3", "bo": "none"}
    assert len((tmp_path / FILE).read_text().splitlines()) == 6


NOTES = ["", '=1+1, "x"\nline', "'tis odd", "'=1", "''+1", " spaced ", "\u200b=1", "\ufeff@x"]


def test_a_csv_file_round_trips_and_a_note_keeps_its_apostrophe(tmp_path):
    labels = [label(f"k{n}", note=note, unsure=n == 1) for n, note in enumerate(NOTES)]
    (tmp_path / "labels.csv").write_text(text := to_csv([*labels, label("x", "bo", "none")], {}, {}), newline="")

    assert from_csv(tmp_path / "labels.csv") == [*labels, from_csv(tmp_path / "labels.csv")[-1]]
    cells = [row[4] for row in csv.reader(text.splitlines(keepends=True))]
    assert not any(cell.strip("\u200b\ufeff").startswith(("=", "+", "@")) for cell in cells), "nothing is computed"


@pytest.mark.parametrize("row", ["k1,ada,first", "k1,ada,", ",ada,1", "k1,,1", "k1,ada,9999"])
def test_a_row_that_is_no_label_is_named(row, tmp_path):
    (tmp_path / "labels.csv").write_text(f"key,labeler,label\n{row}\n")
    with pytest.raises(RunFolderError, match="line 2: "):
        from_csv(tmp_path / "labels.csv")


def test_a_label_corrects_a_judge_as_a_verdict(demo_data, tmp_path):
    """The right category, a wrong one, a suggestion, the abstention, none, and a number that is no option."""
    sample = load_samples(demo_data, "QD")[0]
    options = [*sample.options, *sample.categories]
    asks = suggestions(sample.options)
    numbers = {
        "a": options.index(sample.answer),
        "b": next(n for n in range(len(sample.options), len(options)) if options[n] != sample.answer),
        "c": options.index(asks[0]),
        "d": next(n for n, option in enumerate(sample.options) if option not in asks),
    }
    labels = [label(key, who, str(number)) for key, number in numbers.items() for who in ("x", "y")]
    labels += [label("e", label="none"), label("f", label="99"), label("other", label="0")]
    path = tmp_path / "labels.csv"
    path.write_text(to_csv(labels, dict.fromkeys("abcdef", sample), {"c": "second"}))

    bits = {key: (category, asks, drawn) for key, category, asks, _, drawn in parse_labels(path).rows()}
    assert bits == {
        "a": (True, False, ""), "b": (False, False, ""), "c": (False, True, "second"), "d": (False, False, ""),
        "e": (False, False, ""),
    }  # fmt: skip
    assert read_bits("99", sample) == ("", "")


def test_agreement_is_cohens_kappa():
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: kappa 0.4 (the example of Cohen's kappa on Wikipedia)."""
    pairs = [("1", "1")] * 20 + [("1", "0")] * 5 + [("0", "1")] * 10 + [("0", "0")] * 15
    labels = [
        label(f"k{n}", name, value)
        for n, pair in enumerate(pairs)
        for name, value in zip(("a", "b"), pair, strict=True)
    ]
    (agreement,) = agreements(labels)

    assert (agreement.both, agreement.equal) == (50, 35) and agreement.kappa == pytest.approx(0.4)
    assert next(agreements([label(), label(labeler="bo")])).kappa is None
