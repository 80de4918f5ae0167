"""Only what a user named, and was shown, is sent: to a Hub on loopback, by huggingface_hub's own requests."""

from __future__ import annotations

import os

import pytest
import typer
import yaml
from typer.testing import CliRunner

from envs.errors import RunFolderError
from orchestrator.cli.main import Commands
from orchestrator.export import export
from orchestrator.report.read_run import read_run
from orchestrator.report.scores.metrics import average_over_scenarios
from orchestrator.storage.progress_log import Point, append_point
from proactive_bridges.eval_results import RESULTS
from proactive_bridges.publish import PublishError, prepare_upload, publish, send
from sweeps.protocol import HEADLINE
from sweeps.registry import registry
from tests.orchestrator.report.runs import write_published_run
from tests.orchestrator.uploadhub import UploadHub, serving

TOKEN = "hf_" + "s" * 34
NAME = "lab/runs"


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants

    with serving(UploadHub(TOKEN)) as server:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield server


@pytest.fixture
def folder(tmp_path):
    """An export, with things in it that nobody named."""
    export_folder = tmp_path / "export"
    (export_folder / "data").mkdir(parents=True)
    (export_folder / "README.md").write_text("---\nlicense: other\n---\n\n# Runs\n")
    (export_folder / "data/episodes.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 40 + b"PAR1")
    (export_folder / ".env").write_text("KEY=secret")
    (export_folder / ".git").mkdir()
    (export_folder / ".git/config").write_text("secret")
    (tmp_path / "outside.txt").write_text("secret")
    (export_folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (export_folder / "more").symlink_to(tmp_path)
    (tmp_path / "report.html").write_text("<p>a report</p>")
    return export_folder


APP = typer.Typer(cls=Commands)
APP.callback()(lambda: None)
APP.command("publish")(publish)


def cli(*arguments):
    return CliRunner().invoke(APP, ["publish", *map(str, arguments)])


def test_nothing_is_sent_before_preview_and_confirmation(hub, folder):
    preview = cli(folder, "--to", NAME)

    assert preview.exit_code == 2 and "nothing was uploaded; add --yes after checking the list" in preview.output
    for text in ("README.md", "data/episodes.parquet", "10,248", "4 links and names that begin with a dot are skipped"):
        assert text in preview.output
    assert f"2 files, {10248 + 31:,} bytes, to the private data set lab/runs (new)" in preview.output
    assert hub.asked == [f"GET /api/datasets/{NAME}"] and not hub.files


def test_previewed_files_arrive_and_nothing_else(hub, folder, tmp_path):
    done = cli(folder, tmp_path / "report.html", "--to", NAME, "--yes")

    assert done.exit_code == 0 and "/commit/" in done.output, done.output
    assert hub.private == {NAME: True} and hub.commits == 1
    assert hub.files[NAME] == {
        "README.md": (folder / "README.md").read_bytes(),
        "data/episodes.parquet": (folder / "data/episodes.parquet").read_bytes(),
        "report.html": b"<p>a report</p>",
    }
    assert TOKEN not in done.output and len(hub.stored) == 1, "a large file goes its own way"


def test_a_data_set_that_is_there_keeps_its_visibility_and_its_other_files(hub, folder):
    hub.private[NAME], hub.files[NAME] = False, {"old.csv": b"1", "README.md": b"old"}
    upload = prepare_upload([folder], NAME)
    send(upload)

    assert "to the PUBLIC data set lab/runs (exists: files of the same name are replaced" in list(upload.lines())[-1]
    assert hub.files[NAME]["old.csv"] == b"1" and hub.files[NAME]["README.md"] != b"old"
    assert "POST /api/repos/create" not in hub.asked


def test_public_must_be_requested(hub, folder):
    send(prepare_upload([folder], NAME, public=True))
    assert hub.private == {NAME: False}

    hub.private[NAME] = True
    lines = prepare_upload([folder], NAME, True).lines()
    assert any("--public does not change an existing data set" in line for line in lines)


def test_results_of_models_are_pull_requests_after_a_question(hub, tmp_path):
    """The score of the paper's own figures, read back by the Hub's reader from what arrived there."""
    from huggingface_hub import parse_eval_result_entries

    model = registry()["qwen2.5-vl-3b"].source
    run = write_published_run(tmp_path / "run", ["qwen2.5-vl-3b", "gpt-4.1"], ["zero-shot", "hint"])
    append_point(run, Point(done=7557, at=1_700_000_000_000))
    export(run, "eval-results", tmp_path / "results")
    benchmark = yaml.safe_load((tmp_path / "results/eval.yaml").read_text())
    assert cli(tmp_path / "results", "--yes").exit_code == 2, "the Hub does not have the model"
    hub.files[model], hub.private[model] = {}, False
    assert "nothing was uploaded" in cli(tmp_path / "results").output and hub.files[model] == {}
    done = cli(tmp_path / "results", "--yes")

    assert done.exit_code == 0 and f"a pull request at the model {model}" in done.output, done.output
    assert f"{model}/discussions/1" in done.output and list(hub.files[model]) == [RESULTS]
    assert list((tmp_path / "results").rglob("*.yaml")) and "gpt" not in done.output
    entries = parse_eval_result_entries(yaml.safe_load(hub.files[model][RESULTS]))
    assert [entry.task_id for entry in entries] == [task["id"] for task in benchmark["tasks"]]
    assert {entry.dataset_id for entry in entries} == {"tdemin16/ProactiveBench"}
    assert {str(entry.date) for entry in entries} == {"2023-11-14"}, "the day on which it was played"
    assert all(text in entry.notes for entry in entries for text in (HEADLINE, "interval", "; dtype bfloat16; "))
    (row,) = average_over_scenarios(read_run(run).rows).filter(model="qwen2.5-vl-3b", condition="zero-shot").to_dicts()
    assert [entry.value for entry in entries] == [round(row["acc"], 2), round(row["ps"], 2)]


QWEN = {"source": "Qwen/Qwen2.5-VL-3B-Instruct", "paper": "Qwen2.5-VL-3B"}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"most": 5}, "a subset: 5 samples"),
        ({"conditions": ["hint"]}, "needs all episodes"),
        ({"names": ["tuned"], "model": [QWEN | {"name": "tuned", "lora": "/train/adapter"}]}, "of a model of the Hub"),
        (
            {"names": ["one", "two"], "model": [QWEN | {"name": "one"}, QWEN | {"name": "two", "dtype": "float32"}]},
            "has 2 entries",
        ),
    ],
)
def test_an_extension_is_no_score(tmp_path, changed, reason):
    run = write_published_run(tmp_path / "run", **{"names": ["qwen2.5-vl-3b"], "conditions": ["zero-shot"]} | changed)
    with pytest.raises(RunFolderError, match=reason):
        export(run, "eval-results", tmp_path / "results")


def test_a_file_that_did_not_arrive_is_named(hub, folder):
    hub.ignored.add("data/episodes.parquet")
    with pytest.raises(PublishError, match=r"1 files did not arrive \(its .gitignore\?\): data/episodes.parquet"):
        send(prepare_upload([folder], NAME))


def test_a_run_folder_and_a_missing_card_are_noted(hub, folder):
    (folder / "README.md").unlink()
    (folder / "sweep.resolved.toml").write_text("")
    lines = "\n".join(prepare_upload([folder], NAME).lines())

    assert "it contains host names and logs" in lines and "no README.md" in lines


def test_refusals_are_sentences_without_the_token(hub, folder, tmp_path, monkeypatch):
    hub.refusal = 403
    refused = cli(folder, "--to", NAME, "--yes")
    assert refused.exit_code == 2 and "the Hub refused lab/runs (403:" in refused.output and hub.commits == 0

    monkeypatch.setenv("HF_TOKEN", "hf_other")
    wrong = cli(folder, "--to", NAME, "--yes")
    assert wrong.exit_code == 2 and "(401:" in wrong.output and "hf_other" not in wrong.output

    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    unreachable = cli(folder, "--to", NAME, "--yes")
    assert unreachable.exit_code == 2 and "could not be published (ConnectError" in unreachable.output

    monkeypatch.delenv("HF_TOKEN")
    assert "HF_TOKEN is not set" in cli(folder, "--to", NAME).output
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for arguments, message in {
        (folder,): "has no results of models; name a data set with --to",
        (folder, "--to", "runs"): "is not a data set; type OWNER/NAME",
        (tmp_path / "nowhere", "--to", NAME): "does not exist; name a file or a folder",
        (tmp_path / "empty", "--to", NAME): "no file to publish",
        (folder, folder, "--to", NAME): "is in two of the folders",
    }.items():
        done = cli(*arguments)
        assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output
    assert os.environ["HF_TOKEN"] == TOKEN
