"""Every table of a run whose model input is not certified says so at its foot, wherever it is printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actors.engine.baselines import Baseline
from actors.trial.certificate import Certificate, CertifiedRequest
from orchestrator.inspection.certificate import add_certificate
from orchestrator.report.html.page import build_page
from orchestrator.report.read_run import read_run
from orchestrator.report.tables.all_tables import write_tables
from orchestrator.storage.run_folder import stored_sweep
from tests.orchestrator.report.runs import play_sweep, sweep

NAME = "internvl3-8b"
MISSING = "Model input: this run has no certificates."
UNEQUAL = f"Model input: differs from the package's call: {NAME}."
HASHES = {"input_ids": "a" * 64, "pixel_values": "b" * 64}


def give_certificate(folder: Path, **changes: str) -> None:
    request = CertifiedRequest(sample=7, pictures=1, engine={**HASHES, **changes}, package=HASHES)
    (model,) = (model for model in stored_sweep(folder).models if model.name == NAME)
    certificate = {"source": model.source, "backend": model.backend, "weights": "sha256:1"}
    add_certificate(folder, NAME, Certificate(**certificate, requests={"ROD/hint": request}))


@pytest.fixture(scope="module")
def runs(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run of a model of the paper without a certificate, one with an unequal and one with an equal one."""
    parent = tmp_path_factory.mktemp("certified")
    wanted = sweep(demo_data, [NAME, "guess"], ["zero-shot", "hint"], scenarios=["QD", "ROD"])
    first = play_sweep(parent / "missing", wanted, backends={NAME: Baseline("uniform")})
    folders = {"missing": first} | {name: shutil.copytree(first, parent / name) for name in ("unequal", "equal")}
    give_certificate(folders["unequal"], pixel_values="c" * 64)
    give_certificate(folders["equal"])
    return folders


@pytest.mark.parametrize(("name", "note"), [("missing", MISSING), ("unequal", UNEQUAL), ("equal", "")])
def test_every_table_of_a_report(runs: dict[str, Path], name: str, note: str) -> None:
    run = read_run(runs[name])
    tables = build_page(run)["tables"]

    assert len(tables) >= 5
    for table in tables:
        assert (note in table.notes) == bool(note), table.name
        assert any(line.startswith("Model input") for line in table.notes) == bool(note), table.name
    texts = [path.read_text() for path in write_tables(run) if path.suffix in (".md", ".tex")]
    assert len(texts) >= 10 and all(("Model input" in text) == bool(note) for text in texts)
