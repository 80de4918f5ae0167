"""What commands write, print and refuse, whole: a changed word, default or exit code fails a test."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from envs.errors import UserError
from orchestrator.cli import compare, data, listing, models, plan, prompt, share, start, train, view
from orchestrator.object_store.uploader import LISTING
from sweeps import shipped
from sweeps.load import build

PLAIN = '# A test.\nname = "s"\ndata = "d"\nmodels = ["embedded"]\nconditions = ["hint"]\n'
TRAIN = f'{PLAIN}[train]\nmodel = "embedded"\ndata = "t"\n'


def refusal_of(run: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(UserError) as refused:
        run(*arguments, **options)
    return str(refused.value)


def test_init_makes_the_folders_of_its_file_and_lists_the_next_commands(tmp_path: Path, capsys: Any) -> None:
    for file in (tmp_path / "new/deeper/own.toml", tmp_path / "new/deeper/second.toml"):
        start.init(file)
        assert file.read_text() == shipped.copy_sweep_text(shipped.STARTER, file)
        assert capsys.readouterr().out.splitlines() == [
            f"{file}: edit it, then",
            f"  proactive-sweep data demo {file.parent / 'demo-data'}"
            "      # a small benchmark; `data fetch DIR` downloads the published one",
            f"  proactive-sweep plan {file}",
            f"  proactive-sweep run {file}",
            f"  proactive-sweep report outputs/{file.stem}",
        ]
    assert refusal_of(start.init, file) == f"{file} already exists and is left unchanged; name another file"
    text = tmp_path / "own.txt"
    assert refusal_of(start.init, text) == f"{text} is not a sweep file name; end it with .toml"
    assert refusal_of(start.init, file / "x.toml") == f"{file / 'x.toml'} cannot be written: File exists"


def test_a_copy_of_the_paper_is_told_to_fetch_the_published_data(tmp_path: Path) -> None:
    steps = start._next_steps(tmp_path / "p.toml", "data/ProactiveBench/test")
    folder = tmp_path / "data/ProactiveBench"
    assert steps[1] == (
        f"  proactive-sweep data fetch {folder}      # 150 GB, published; `data demo {folder / 'test'}` draws a small one"
    )


def test_an_example_package_is_copied_once_and_without_caches(tmp_path: Path, capsys: Any) -> None:
    start.init(package=tmp_path / "own")
    assert capsys.readouterr().out == f"{tmp_path / 'own'}: its README.md has the commands to type next\n"
    assert (tmp_path / "own/README.md").is_file() and not list((tmp_path / "own").rglob("__pycache__"))
    assert refusal_of(start.init, package=tmp_path / "own") == (
        f"{tmp_path / 'own'} already exists and is left unchanged; name another folder"
    )
    (tmp_path / "file").write_text("")
    assert refusal_of(start.init, package=tmp_path / "file/own") == (
        f"{tmp_path / 'file/own'} cannot be written: Not a directory"
    )


def test_a_training_needs_a_folder_and_a_plan_names_it(tmp_path: Path) -> None:
    (file := tmp_path / "s.toml").write_text(TRAIN)
    bucket = "s3://b/f is a bucket; training needs a local folder as --output"
    assert refusal_of(train.train, file, [], "s3://b/f") == bucket
    assert refusal_of(train.train, file, ["output=s3://b/f"]) == bucket
    assert refusal_of(train.print_learned, [tmp_path, tmp_path], None) == (
        "--learned takes one run folder: the one that holds models before and after training"
    )
    (plain := tmp_path / "plain.toml").write_text(PLAIN)
    assert train.training_lines(plain, [], "h200") == () and train.INTERRUPTED == 130


def test_a_plan_has_the_lines_of_its_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "s.toml").write_text(TRAIN)
    asked: list[Any] = []

    def lines(training: Any, gpu_type: str, gpus: int | None) -> list[str]:
        asked.append((training.train.rp, gpu_type, gpus))
        return ["one", "two"]

    monkeypatch.setattr("orchestrator.learning.plan.plan_lines", lines)
    assert train.training_lines(file, ["train.rp=0.75"], "a100", 4) == ("one", "two")
    assert train.training_lines(file, [], "h200") == ("one", "two") and asked[1][1:] == ("h200", None)
    assert asked[0] == (0.75, "a100", 4)


def test_table_3_is_printed_and_its_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    table = "orchestrator.learning.table"
    monkeypatch.setattr(f"{table}.read_scores", lambda folder, data: (folder, data))
    monkeypatch.setattr(f"{table}.learning_tables", lambda scores: ["first", "second"])
    monkeypatch.setattr(f"{table}.write_scores", lambda folder, scores: [folder / "a.csv", scores[1] / "b.csv"])
    monkeypatch.setattr("orchestrator.report.tables.formats.rich_table", lambda table: table)
    monkeypatch.setattr("orchestrator.report.tables.model_input.add_notes", lambda table, notes: f"{table} {notes}")
    monkeypatch.setattr("orchestrator.report.tables.model_input.input_notes", lambda sweep, folder: "noted")
    monkeypatch.setattr("orchestrator.storage.run_folder.stored_sweep", lambda folder: None)
    train.print_learned([tmp_path], Path("d"))
    assert capsys.readouterr().out.splitlines() == [
        "first noted", "second noted", f"{tmp_path / 'a.csv'} {Path('d/b.csv')}",
    ]  # fmt: skip


def test_a_prompt_is_printed_to_the_letter(demo_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    templates: list[str | None] = [None, None, "<s>as its template"]
    monkeypatch.setattr(
        "orchestrator.inspection.prompt_preview.apply_chat_template", lambda *arguments: templates.pop(0)
    )
    prompt.prompt("ROD", 0, demo_data, token_ids=False)
    plain = capsys.readouterr().out
    assert plain.startswith("[user]\n<picture ") and plain.count("[user]") == 1
    prompt.prompt("ROD", 0, demo_data, model="qwen2.5-vl-7b")
    assert tuple(capsys.readouterr()) == (
        plain, "qwen2.5-vl-7b is not on this disk: showing the conversation without its chat template\n",
    )  # fmt: skip
    prompt.prompt("ROD", 0, demo_data, model="oracle")
    assert tuple(capsys.readouterr()) == (plain, "")
    prompt.prompt("ROD", 0, demo_data, model="qwen2.5-vl-7b")
    assert tuple(capsys.readouterr()) == ("<s>as its template\n", "") and templates == []
    assert refusal_of(prompt.prompt, "ROD", 0, demo_data, token_ids=True) == (
        "--token-ids requires --model NAME, or --model FOLDER of a checkpoint"
    )


def test_a_measure_of_a_package_has_the_first_line_of_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "my_measures-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-measures\nVersion: 1.5\n")
    (metadata / "entry_points.txt").write_text(
        "[proactive_sweep.measures]\nfirst = my_measures:first\nsecond = my_measures:second\n"
    )
    (tmp_path / "my_measures.py").write_text(
        'def first(rows):\n    """Say one thing.\n\n    And more.\n    """\n\ndef second(rows):\n    pass\n'
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert listing.measures()[4:] == [
        {"name": "first", "what it is": "Say one thing.", "package": "my-measures 1.5"},
        {"name": "second", "what it is": "", "package": "my-measures 1.5"},
    ]


def test_shipped_sweeps_have_the_question_of_their_first_line() -> None:
    rows = listing.sweeps()
    assert [row["name"] for row in rows] == list(shipped.shipped_sweeps())
    assert all(row["question"] and not row["question"].startswith("#") for row in rows)


def test_an_export_names_a_format_or_a_data_set(tmp_path: Path) -> None:
    assert refusal_of(share.export, ["run"]) == "type --to FORMAT, --publish OWNER/NAME, or both"
    assert refusal_of(share.export, ["a", "b"], "csv") == "--to csv takes one run folder; export them one by one"


def test_files_are_uploaded_only_after_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    upload = SimpleNamespace(lines=lambda: ["a list"])
    answers: list[str] = []
    monkeypatch.setattr("orchestrator.export.publish.prepare_upload", lambda *arguments: upload)
    monkeypatch.setattr("orchestrator.export.publish.publish", lambda prepared: "sent")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: bool(answers)))
    monkeypatch.setattr(typer, "confirm", lambda question: answers.append(question) or len(answers) == 2)

    assert refusal_of(share._upload, [tmp_path], "a/b", False, False) == (
        "nothing was uploaded; add --yes after checking the list"
    )
    share._upload([tmp_path], "a/b", False, True)
    assert answers == [] and capsys.readouterr().out == "a list\na list\nsent\n"
    answers.append("a terminal")
    share._upload([tmp_path], "a/b", False, False)
    with pytest.raises(typer.Exit) as end:
        share._upload([tmp_path], "a/b", False, False)
    assert end.value.exit_code == 1 and answers[1:] == ["upload these files?"] * 2
    assert capsys.readouterr().out == "a list\nsent\na list\nnothing was uploaded\n"


def test_one_clustering_is_chosen() -> None:
    assert compare.choose_clustering("", False) == "automatic" and compare.choose_clustering("", True) == ""
    assert compare.choose_clustering("object", False) == "object"
    assert refusal_of(compare.choose_clustering, "object", True) == (
        "--cluster object and --independent exclude each other; type one of them"
    )


@pytest.mark.parametrize(
    "options", [{"price": 2.0}, {"timeline": Path("t.png")}, {"gpu_type": "h100"}, {"price": 1.0, "precision": 5.0}]
)
def test_options_of_a_forecast_need_a_number_of_gpus(options: dict[str, Any]) -> None:
    assert refusal_of(plan.plan, Path("baselines"), **options) == "--price, --timeline and --gpu-type require --gpus N"


@pytest.mark.parametrize("options", [{"gpus": 8}, {"precision": 5.0}, {"detect": 5.0}])
def test_reused_episodes_are_only_counted(options: dict[str, Any]) -> None:
    assert refusal_of(plan.plan, Path("baselines"), reuse=["run"], **options) == (
        "--reuse counts episodes and cannot be combined with --gpus, --precision or --detect"
    )


def test_cells_are_summed_by_model() -> None:
    cells = [
        {"cell": "a/ROD/hint", "planned": 3, "done": 1}, {"cell": "a/QD/hint", "planned": 4, "done": 0},
        {"cell": "b/QD/hint", "planned": 5, "done": 5},
    ]  # fmt: skip
    assert plan._sum_by_model(cells, ("planned", "done")) == [
        {"model": "a", "cells": 2, "planned": 7, "done": 1}, {"model": "b", "cells": 1, "planned": 5, "done": 5},
    ]  # fmt: skip


def test_a_plan_of_cells_or_models_is_a_table_below_its_total(tmp_path: Path, demo_data: Path, capsys: Any) -> None:
    table = {
        "name": "s", "data": str(demo_data), "models": ["uniform", "oracle"], "conditions": ["hint", "icl-1"],
        "scenarios": ["ROD", "QD"], "output": str(tmp_path / "run"),
    }  # fmt: skip
    reasons = [f"reason {number}" for number in range(3)]
    for by_cell, heads in ((False, "model cells planned done"), (True, "cell planned done")):
        plan._show_cells(build(table, "a test"), reasons, False, [], by_cell)
        total, *lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip(" ─━")]
        assert total == "6 cells, 60 episodes, 0 done" and lines[0] == heads
        assert not any("more (--cells" in line for line in lines)
        assert lines[1] == ("uniform/ROD/hint 10 0" if by_cell else "uniform 3 30 0") and lines[-3:] == reasons


@pytest.mark.parametrize(("models", "hidden"), [(5, []), (7, ["left out: 2 more (--cells lists them)"])])
def test_a_plan_lists_five_products_that_are_left_out(
    models: int, hidden: list[str], tmp_path: Path, demo_data: Path, capsys: Any
) -> None:
    entries = [
        {"name": f"m{number}", "source": "builtin:oracle", "backend": "builtin", "max_images": 1}
        for number in range(models)
    ]
    table = {
        "name": "s", "data": str(demo_data), "models": ["oracle", *(entry["name"] for entry in entries)], "model": entries,
        "scenarios": ["ROD"], "conditions": ["zero-shot", "history"], "output": str(tmp_path / "run"),
    }  # fmt: skip
    reasons = [f"left out: m{number} takes one picture a prompt, but history needs several" for number in range(models)]
    plan._show_cells(build(table, "a test"), ["a note"], False, [], False)
    assert capsys.readouterr().out.splitlines()[-6 - len(hidden) :] == [*reasons[:5], *hidden, "a note"]
    plan._show_cells(build(table, "a test"), ["a note"], False, [], True)
    assert capsys.readouterr().out.splitlines()[-models - 1 :] == [*reasons, "a note"]
    plan._show_cells(build(table, "a test"), ["a note"], True, [], False)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["cells", "notes"] and printed["notes"] == [*reasons, "a note"]


def test_a_demo_that_is_there_can_be_kept(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("")
    data.demo(tmp_path, keep=True)
    assert capsys.readouterr().out == f"{tmp_path} already exists; remove it to draw it again\n"
    data.demo(tmp_path / "new", 7, keep=True, scenarios="QD,ROD")
    assert capsys.readouterr().out == f"{tmp_path / 'new'}: ROD 4, QD 3\n"
    assert refusal_of(data.fetch, tmp_path, split="dev") == "--split 'dev' is neither test nor train"


def test_a_failed_write_has_the_words_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert data._unwritable(tmp_path / "file/a", OSError(20, "Not a directory")) == (
        f"{tmp_path / 'file/a'} cannot be written to: {tmp_path / 'file'} is a file; name another folder"
    )
    for problem in (OSError(28, "No space left"), OSError("No space left")):
        assert data._unwritable(tmp_path / "a", problem) == (
            f"{tmp_path / 'a'} cannot be written to: No space left; name another folder"
        )


def test_models_are_named_before_they_are_loaded() -> None:
    gpus = "b200, mi300x, h200, h100, a100, a100-40, l40s, a6000, v100, rtx5090, rtx4090, a10, l4, t4"
    assert refusal_of(models.check, gpu_type="h300") == f"--gpu-type 'h300' is none of {gpus}"
    assert refusal_of(models.fetch) == "name the models to fetch, or a sweep: models fetch --sweep FILE"
    assert refusal_of(models.prove) == "name models or checkpoint folders to prove, or add --sweep FILE"
    assert refusal_of(models.try_models) == (
        "models try loads every model: name models or checkpoint folders, or add --sweep FILE"
    )
    assert models.CHECK_COLUMNS == (
        "model", "source", "architecture", "pictures", "chat template", "decoding", "memory", "packages", "license",
    )  # fmt: skip


def test_labels_need_a_folder_that_keeps_them_and_a_name(tmp_path: Path) -> None:
    view._refuse_bucket_copies([tmp_path])
    (tmp_path / LISTING).write_text("")
    assert refusal_of(view._refuse_bucket_copies, [Path("other"), tmp_path]) == (
        "labels are kept in a folder of this machine; copy the run from its bucket to one and name that"
    )
    for name in ("a" * 61, "a b"):
        assert refusal_of(view.view, [tmp_path], name=name) == (
            f"--as {name!r} must be letters, digits, dots, dashes, plus signs or underscores, 60 at most"
        )
    assert refusal_of(view.view, [tmp_path, tmp_path], export_labels=tmp_path / "x.csv") == (
        "labels belong to one run folder; name one"
    )
