"""``--skip-bad`` plays what a repaired file would hold, says everywhere what was left out, and resumes to the same plan only."""

from __future__ import annotations

import shutil

import pytest

from envs.errors import RunFolderError
from envs.samples import lines_file
from orchestrator.execution.attempt import open_attempt
from orchestrator.planning.build_plan import build_plan
from orchestrator.report.html.page import list_problems
from orchestrator.report.read_run import read_run
from orchestrator.storage.status import read_status
from tests.orchestrator.cli.test_cli import call
from tests.orchestrator.report import runs

MESSAGE = "2 bad lines of ROD: Realistic-Occlusion-Dataset_preprocessed.jsonl, line 1: is not JSON"


@pytest.fixture
def mixed_folder(demo_data, tmp_path):
    """The lines of ROD and QD alone; two bad ones stand in ROD's file."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("ROD", "QD"):
        shutil.copy(lines_file(demo_data, name), lines_file(folder, name))
    path = lines_file(folder, "ROD")
    first, remainder = path.read_text().split("\n", 1)
    path.write_text("\n".join(["{", first, "[]", remainder]))
    return folder


def sweep(data, **fields):
    return runs.sweep(data, ["uniform"], ["zero-shot", "icl-1"], scenarios=["ROD", "QD"], **fields)


def test_the_plan_is_that_of_a_file_without_the_bad_lines(demo_data, mixed_folder):
    plan, clean = build_plan(sweep(mixed_folder, skip_bad=True)), build_plan(sweep(demo_data))

    assert list(plan.all_keys()) == list(clean.all_keys())
    assert [str(record).partition(";")[0] for record in plan.left_out] == [MESSAGE] and clean.left_out == ()


def test_status_and_report_say_what_was_left_out(mixed_folder, tmp_path):
    folder = runs.play_sweep(tmp_path / "run", sweep(mixed_folder, skip_bad=True))

    assert read_status(folder)["left_out"][0].startswith(MESSAGE)
    for command in (["status", folder], ["report", folder, "--brief"]):
        assert f"left out: {MESSAGE}" in call(*command).output
    assert any(line.startswith(f"left out: {MESSAGE}") for line in list_problems(read_run(folder)))
    shutil.rmtree(mixed_folder)
    assert read_run(folder).left_out[0].lines == 2, "the run folder knows it without the data"


def resume_run(folder, spec, update=False):
    with open_attempt(spec, build_plan(spec), folder, print, update):
        pass


def test_a_run_goes_on_only_with_the_same_lines_left_out(mixed_folder, tmp_path):
    """Without the option the bad lines refuse, once they are mended the folder does: it would be another plan."""
    folder, spec = tmp_path / "run", sweep(mixed_folder, skip_bad=True)
    resume_run(folder, spec)
    resume_run(folder, spec)
    (folder / "episodes" / "part-00000001.parquet").touch()  # something was played
    path = lines_file(mixed_folder, "ROD")
    path.write_text(path.read_text().replace("[]\n", "", 1))

    with pytest.raises(RunFolderError, match=r"was run without 2 bad lines of ROD, .* now leave out 1 bad line of ROD"):
        resume_run(folder, spec)
    path.write_text(path.read_text().replace("{\n", "", 1))
    with pytest.raises(RunFolderError, match="skip_bad was true, this sweep says false"):
        resume_run(folder, sweep(mixed_folder))
    resume_run(folder, sweep(mixed_folder), update=True)
    assert not (folder / "bad_lines.json").exists()
    resume_run(folder, sweep(mixed_folder))


def test_what_a_model_cannot_take_is_left_out_of_a_run_that_begins_before_its_files_are_here(demo_data, tmp_path):
    """Its refused episodes leave the plan, the others stay and are not played again; no data or checkpoint is read to say so."""
    reason = "reads reads text only, but zero-shot shows pictures"

    def wanted(**limits):
        entry = {"name": "reads", "source": "builtin:uniform", "backend": "builtin", **limits}
        conditions = ["zero-shot", "text-only"]
        return runs.sweep(demo_data, ["reads"], conditions, scenarios=["QD"], model=[entry], selection={"limit": 3})

    folder = runs.play_sweep(tmp_path / "run", wanted())
    before = set(read_run(folder).episodes["key"])
    limited = wanted(limits=["no pictures"])
    resume_run(folder, limited)
    runs.play_sweep(folder, limited)
    stored = read_run(folder)

    assert set(stored.episodes["condition"]) == {"text-only"} and set(stored.episodes["key"]) < before
    assert [cell["cell"] for cell in read_status(folder)["cells"]] == ["reads/QD/text-only"]
    assert read_status(folder)["left_out"] == [reason] and not stored.left_out
    for command in (["status", folder], ["report", folder, "--brief"]):
        assert f"left out: {reason}" in call(*command).output
    assert any(line == f"left out: {reason}" for line in list_problems(stored))
