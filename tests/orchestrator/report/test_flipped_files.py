"""No flipped bit in a run folder changes a figure silently: a message names the file, or episodes are pending again."""

import shutil
from pathlib import Path
from random import Random

from envs.errors import RunFolderError
from orchestrator.report.read_run import read_run
from orchestrator.scheduling.forecast.throughput import OBSERVED_FILE, read_observed
from orchestrator.storage import checksums
from orchestrator.storage.run_folder import planned_cells, planned_keys, stored_sweep
from orchestrator.storage.status import read_status, write_status
from orchestrator.tracking.rebuild import read_results
from tests.orchestrator.report import runs

RATES = b'{"gpu": "h200", "episodes": {"uniform": {"episodes": 80, "busy": 16.0, "starts": [2.0]}}}'
READERS = {
    "sweep": stored_sweep,
    "plan": planned_cells,
    "keys": lambda folder: planned_keys(folder).collect()["key"].to_list(),
    "status": lambda folder: read_status(folder)["cells"],
    "rates": lambda folder: read_observed([folder], "h200"),
    "figures": lambda folder: read_run(folder).rows.to_dicts(),
    "results": lambda folder: read_results(folder).to_dicts(),
}


def complete_run(folder: Path, data_folder: Path) -> tuple[Path, dict]:
    """Return a run folder with every file that has a checksum, and its sweep."""
    wanted = runs.sweep(data_folder, ["uniform"], ["zero-shot"], scenarios=["QD", "ROD"], selection={"limit": 3})
    runs.play_sweep(folder, wanted, only=3)
    runs.play_sweep(folder, wanted)
    states = [{**cell, "finished": 3, "errors": 0, "state": "complete", "reason": ""} for cell in planned_cells(folder)]
    names = ("cell", "planned", "finished", "errors", "state", "reason")
    write_status(folder, [{name: state[name] for name in names} for state in states], finished=True)
    checksums.write(folder / OBSERVED_FILE, RATES)
    return folder, wanted


def read_or_message(reader, folder: Path):
    try:
        return reader(folder)
    except RunFolderError as mistake:
        assert "\n" not in str(mistake) and len(str(mistake)) < 1000
        return str(mistake)


def read_all(folder: Path) -> dict:
    return {name: read_or_message(reader, folder) for name, reader in READERS.items()}


def count_flips(tmp_path: Path, data_folder: Path, count: int, seed: int, again: int) -> dict[str, int]:
    """Try ``count`` flips, rerunning after every ``again``-th; count those that show as a message or as pending episodes."""
    chance, counts = Random(seed), {"told": 0, "pending": 0, "same": 0}
    original, wanted = complete_run(tmp_path / "whole", data_folder)
    before = read_all(original)
    assert not any(isinstance(value, str) for value in before.values())
    files = sorted(path.relative_to(original) for path in original.rglob("*") if path.stat().st_size and path.is_file())
    files.remove(Path("lock"))
    assert len(files) == 7 + 4 + 1, files
    for number in range(count):
        folder = shutil.copytree(original, tmp_path / "flipped")
        path = folder / files[number % len(files)]
        raw = bytearray(path.read_bytes())
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        path.write_bytes(raw)
        counts[_classify_flip(folder, path, before)] += 1
        if number % again == 0:
            runs.play_sweep(folder, wanted)
            for name in ("plan.json", "plan.parquet", "results.json", "results.parquet", "sweep.resolved.toml"):
                assert (folder / name).read_bytes() == (original / name).read_bytes(), (path, name)
        shutil.rmtree(folder)
    return counts


def _classify_flip(folder: Path, path: Path, before: dict) -> str:
    after = read_all(folder)
    changed = {name for name in after if after[name] != before[name]}
    silent = {name for name in changed if not isinstance(after[name], str)}
    if path.parent == folder and path.name != checksums.NAME:
        assert (
            checksums.damaged_files(folder) == [path.name]
            and silent <= {"rates"}
            and after["rates"] in (before["rates"], {})
        )
        return "told"
    if not silent:
        return "told" if changed else "same"
    assert silent == {"status", "figures"}, (path, silent)
    counts = [(row["finished"], row["planned"]) for name in silent for row in after[name]]
    assert any(finished < planned for finished, planned in counts) and all(planned == 3 for _, planned in counts)
    return "pending"


def test_flipped_bit_in_any_file_is_reported_or_pending(tmp_path, demo_data):
    counts = count_flips(tmp_path, demo_data, 48, seed=0, again=12)
    assert counts["told"] >= 28 and counts["pending"] >= 14, counts
