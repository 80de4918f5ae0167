"""Labels of options: lines that are only appended, a CSV file that round-trips, and agreement by a textbook's value."""

import polars as pl
import pytest
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.cli.main import app
from orchestrator.object_store.uploader import LISTING
from orchestrator.storage.option_labels import (
    FILE,
    OptionLabel,
    agreements,
    append_labels,
    from_csv,
    read_labels,
    to_csv,
)
from tests.orchestrator.report.runs import play_sweep, sweep


def label(key="k1", labeler="ada", label="2", **more) -> OptionLabel:
    return OptionLabel(key=key, labeler=labeler, label=label, **more)


def test_the_newest_label_counts_and_the_older_stays(tmp_path):
    append_labels(tmp_path, [label(label="0"), label(labeler="bo", label="none")])
    append_labels(tmp_path, [label(label="3", unsure=True, note='a, "b"\nc')])

    assert {name: each.label for (_, name), each in read_labels(tmp_path).items()} == {"ada": "3", "bo": "none"}
    assert len((tmp_path / FILE).read_text().splitlines()) == 3


def test_torn_and_foreign_lines_are_skipped(tmp_path):
    append_labels(tmp_path, [label()])
    with (tmp_path / FILE).open("a") as file:
        file.write('{"key": "k2", "labeler": "ada", "label": "-1"}\n[]\n{"key": "k3", "lab')

    assert list(read_labels(tmp_path)) == [("k1", "ada")]


def test_a_csv_file_round_trips(tmp_path):
    labels = [label(note='=1+1, "x"\nline', unsure=True), label("k2", "bo", "none")]
    (tmp_path / "labels.csv").write_text(to_csv(labels))

    assert """k1,ada,2,True,"'=1+1, ""x""" in to_csv(labels), "a spreadsheet does not compute it"
    assert from_csv(tmp_path / "labels.csv") == labels


@pytest.mark.parametrize("row", ["k1,ada,first", "k1,ada,", ",ada,1", "k1,,1", "k1,ada,9999"])
def test_a_row_that_is_no_label_is_named(row, tmp_path):
    (tmp_path / "labels.csv").write_text(f"key,labeler,label\n{row}\n")
    with pytest.raises(RunFolderError, match="line 2: "):
        from_csv(tmp_path / "labels.csv")


def test_agreement_is_cohens_kappa(tmp_path):
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


def test_import_refuses_episodes_of_another_run(tmp_path):
    (tmp_path / "labels.csv").write_text(to_csv([label()]))
    result = CliRunner().invoke(app, ["view", str(tmp_path), "--import-labels", str(tmp_path / "labels.csv")])

    assert result.exit_code == 2 and "is not an episode of" in " ".join(result.output.split())
    assert not (tmp_path / FILE).exists()


def test_labels_go_out_and_back_by_command(demo_data, tmp_path):
    """The labels of two people are written, read into an emptied folder, and compared."""
    run = play_sweep(tmp_path / "run", sweep(demo_data, ["always-ask"], ["zero-shot"], scenarios=["QD"]))
    keys = pl.read_parquet(run / "episodes" / "*.parquet")["key"].head(4)
    append_labels(run, [label(key, name, n) for key in keys for name, n in (("ada", "1"), ("bo", "1"))])
    append_labels(run, [label(keys[0], "bo", "2")])
    file = tmp_path / "labels.csv"

    written = CliRunner().invoke(app, ["view", str(run), "--export-labels", str(file)])
    before = read_labels(run)
    (run / FILE).unlink()
    added = CliRunner().invoke(app, ["view", str(run), "--import-labels", str(file)])
    compared = CliRunner().invoke(app, ["judge", str(run), "--agreement"])

    assert (written.output, added.exit_code) == (f"8 labels in {file}\n", 0), added.output
    assert {key: each.label for key, each in read_labels(run).items()} == {k: e.label for k, e in before.items()}
    assert "ada and bo: 3 of 4 labels equal, kappa 0.00" in compared.output
    refused = CliRunner().invoke(app, ["view", str(run), str(tmp_path), "--export-labels", str(file)])
    assert refused.exit_code == 2 and "labels belong to one run folder" in refused.output


@pytest.mark.parametrize("command", ["view {} --as ada", "view {} --import-labels labels.csv"])
def test_copy_of_a_bucket_takes_no_labels(tmp_path, command):
    """The next command on the bucket deletes what the bucket does not have."""
    (tmp_path / LISTING).touch()
    result = CliRunner().invoke(app, command.replace("{}", str(tmp_path)).split())

    assert result.exit_code == 2 and "labels are kept in a folder of this machine" in " ".join(result.output.split())
