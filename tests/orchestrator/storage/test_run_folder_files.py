"""The files of a run folder, byte by byte, and what is printed if one is damaged or belongs to another run."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from envs.bad_lines import SkippedLines
from envs.errors import RunFolderError
from orchestrator.storage.run_folder import (
    claim,
    planned_cells,
    planned_keys,
    read_bad_lines,
    settings,
    to_json,
    write_plan,
)
from sweeps.load import build
from sweeps.spec import Sweep

CELL = {"model": "uniform", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "cell": "uniform/QD/hint"}
TORN, OTHER = (SkippedLines("QD", 1, digest, ("line 3 is torn",)) for digest in ("a" * 16, "b" * 16))


def sweep(**keys) -> Sweep:
    return build({"name": "s", "data": "d", "models": ["uniform"], "scenarios": ["QD"], **keys}, "test.toml")


def add_part(folder: Path, table: str = "episodes") -> None:
    (folder / table).mkdir(exist_ok=True)
    (folder / table / "part-00000001.parquet").touch()


def claim_without(folder: Path, left_out, update: bool = False) -> tuple[SkippedLines, ...]:
    with claim(folder, sweep(), update, left_out):
        return read_bad_lines(folder)


def test_the_plan_is_two_files_that_read_back(tmp_path):
    rows = [{**CELL, "planned": 2}, {**CELL, "cell": "uniform/ROD/hint", "scenario": "ROD", "planned": 3}]
    write_plan(tmp_path, pl.DataFrame(rows), ["a", "b"])

    assert json.loads((tmp_path / "plan.json").read_text()) == {"planned": 5, "cells": rows}
    assert planned_cells(tmp_path) == rows
    assert planned_keys(tmp_path).collect()["key"].to_list() == ["a", "b"]
    assert to_json({"name": "ä"}) == '{\n  "name": "ä"\n}\n'.encode()


def test_left_out_lines_are_those_of_the_first_attempt(tmp_path):
    assert claim_without(tmp_path, (TORN,)) == (TORN,)
    assert claim_without(tmp_path, ()) == (), "a folder without an episode takes other data"
    assert not (tmp_path / "bad_lines.json").exists()
    assert claim_without(tmp_path, ()) == ()
    assert claim_without(tmp_path, (TORN,)) == (TORN,)
    add_part(tmp_path)
    assert (
        claim_without(tmp_path, (SkippedLines("QD", 1, TORN.numbers, ("other words",)),))[0].identity == TORN.identity
    )
    assert len(claim_without(tmp_path, None)) == 1, "the lines were not read: what is recorded stays"

    with pytest.raises(RunFolderError) as refusal:
        claim_without(tmp_path, (OTHER, SkippedLines("ROD", 2, "c" * 16, ())))
    assert str(refusal.value) == (
        f"{tmp_path} was run without 1 bad line of QD, but the data now leave out 1 bad line of QD, 2 bad lines of ROD."
        " Restore the data, pass another --output, or --update to continue with the lines that are good now"
    )
    with pytest.raises(RunFolderError, match="but the data now leave out no bad line"):
        claim_without(tmp_path, ())
    assert claim_without(tmp_path, (OTHER,), update=True) == (OTHER,)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"scenarios": 3}', '{"scenarios": [{}]}'])
def test_a_damaged_record_of_bad_lines_is_refused(tmp_path, content):
    (tmp_path / "bad_lines.json").write_text(content)

    with pytest.raises(RunFolderError, match=r"bad_lines\.json is damaged .* to rewrite it, with --update"):
        read_bad_lines(tmp_path)


def test_a_judge_identifies_no_run():
    judged = sweep(protocol=["mcqa", "oeg"], judge={"model": "rule-judge"})

    assert settings(judged) == settings(sweep(protocol=["mcqa", "oeg"]))
    assert not {"measures", "precision", "cluster.workers"} & settings(judged).keys()
