"""Bounds of the texts and numbers in the files of a run folder beside its parts, and whole lines and sentences of them."""

import hashlib
import json
import re

import pytest
from pydantic import ValidationError

from envs.errors import RunFolderError
from orchestrator.storage import checksums, control_log, option_labels, run_folder
from orchestrator.storage import status as status_file
from orchestrator.storage.control_log import make_command
from orchestrator.storage.option_labels import OptionLabel, PairAgreement, agreements
from orchestrator.storage.replica_time import FILE as TIMES
from orchestrator.storage.replica_time import WRITE_INTERVAL_S, ReplicaTime, describe, read_attempts, write_attempts
from tests.orchestrator.storage.test_episode_store import write_store


def test_a_command_has_300_characters_of_text_at_most():
    assert (control_log.LARGEST, control_log.MAX_BATCH) == (1_048_576, 256)
    assert len(make_command("pause", "x" * 300).target) == 300
    with pytest.raises(RunFolderError, match="pause takes a target of at most 300 characters"):
        make_command("pause", "t" * 301)


@pytest.mark.parametrize(
    ("field", "longest"), [("key", 500), ("labeler", 60), ("note", 500), ("time", 40), ("wording", 200)]
)  # fmt: skip
def test_a_label_has_texts_of_a_certain_length(field, longest):
    fields = {"key": "k", "labeler": "a", "label": "999"}
    assert getattr(OptionLabel(**(fields | {field: "x" * longest})), field) == "x" * longest
    with pytest.raises(ValidationError):
        OptionLabel(**(fields | {field: "x" * (longest + 1)}))
    for empty in ("labeler", "label"):
        with pytest.raises(ValidationError):
            OptionLabel(**(fields | {empty: ""}))
    assert OptionLabel(**(fields | {"labeler": "a"})).labeler == "a", "one letter is a name"
    assert option_labels.MOST_OPTIONS == 200 and not OptionLabel(**fields).unsure
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", OptionLabel(**fields).time)


@pytest.mark.parametrize("text, is_unsure", [("1", True), ("TRUE", True), ("yes", True), ("no", False), ("0", False)])
def test_a_spreadsheet_says_in_its_way_that_a_person_was_unsure(tmp_path, text, is_unsure):
    path = tmp_path / "labels.csv"
    path.write_text(f"\ufeffkey,labeler,label,unsure\nk,ada, none ,{text}\n", encoding="utf-8")
    assert [(label.label, label.unsure) for label in option_labels.from_csv(path)] == [("none", is_unsure)]


def test_each_two_of_three_people_are_compared_by_name():
    """Of two shared episodes ada and bo agree on one: (0.5 - 0.25) / 0.75; ada and cy share one, bo and cy none."""
    given = {"cy": {"c": "1"}, "bo": {"a": "1", "b": "2"}, "ada": {"a": "1", "b": "3", "c": "1"}}
    labels = [OptionLabel(key=k, labeler=who, label=v) for who, rows in given.items() for k, v in rows.items()]

    first, second = agreements(labels)
    assert first == PairAgreement("ada", "bo", 2, 1, pytest.approx(1 / 3))
    assert second == PairAgreement("ada", "cy", 1, 1, None)


def test_held_times_at_their_bounds_and_to_the_millisecond(tmp_path):
    assert WRITE_INTERVAL_S == 120 and ReplicaTime() == ReplicaTime(0, 0, 0, 0, 0, 0, 0)
    write_attempts(tmp_path, {"a": {"m": ReplicaTime(gpus=1, playing=1e12, lost=0.5, idle=1.00051, waiting=0)}})
    assert read_attempts(tmp_path) == {"a": {"m": ReplicaTime(gpus=1, playing=1e12, lost=0.5, idle=1.001)}}
    assert (tmp_path / TIMES).read_text().startswith('{\n "a": {\n  "m": {\n   "gpus": 1,\n')
    hour = 3600.0
    row = ReplicaTime(gpus=1, playing=199 * hour, idle=hour, waiting=hour)
    write_attempts(tmp_path, {"a": {"m": row}})
    assert list(describe(tmp_path)) == ["200.0 GPU-hours held: 100% playing, 0% idle; 1.0 GPU-hours waiting in Ray"]


def test_a_status_describes_names_and_sizes_of_parts_and_the_bytes_of_the_plan(tmp_path):
    folder = write_store(tmp_path / "run", (0,))
    (folder / "plan.json").write_bytes(b"{}")
    (folder / "plan.parquet").write_bytes(b"keys")
    (folder / "sweep.resolved.toml").write_bytes(b"a = 1\n")
    size = (folder / "episodes" / "part-00000001.parquet").stat().st_size
    content = f"plan.json 2\n{{}}plan.parquet 4\nkeyssweep.resolved.toml 6\na = 1\npart-00000001.parquet {size}\n"

    status_file.write_status(folder, [], finished=True)

    written = json.loads((folder / "status.json").read_text())
    assert written["describes"] == hashlib.sha256(content.encode()).hexdigest() and written["finished"] is True


@pytest.mark.parametrize("field", ["planned", "full"])
@pytest.mark.parametrize(
    ("count", "is_one"), [(0, True), (2**53 - 1, True), (-1, False), (2**53, False), (1.0, False)]
)  # fmt: skip
def test_a_planned_number_of_episodes_is_whole_and_not_beyond_what_json_holds(tmp_path, field, count, is_one):
    names = {"model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "cell": "m/QD/hint"}
    cell = {**names, "planned": 1, field: count}
    checksums.write(tmp_path / run_folder.PLAN, run_folder.to_json({"planned": 1, "cells": [cell]}))
    if is_one:
        assert run_folder.planned_cells(tmp_path) == [cell]
    else:
        with pytest.raises(
            RunFolderError, match=r"plan\.json is damaged \(.*\); rerun the same `run` command to rewrite it"
        ):
            run_folder.planned_cells(tmp_path)


def test_json_of_a_run_folder_is_indented_and_in_its_own_letters():
    assert run_folder.to_json({"a": ["ü"]}) == '{\n  "a": [\n    "ü"\n  ]\n}\n'.encode()
