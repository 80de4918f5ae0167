"""The stored benchmark as it is published: JSONL files and numbered archives below test/."""

import shutil
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published(demo_data, tmp_path_factory) -> Path:
    bench = tmp_path_factory.mktemp("published") / "test"
    bench.mkdir()
    for path in demo_data.glob("*.jsonl"):
        shutil.copy(path, bench)
    tops = sorted(path for path in demo_data.iterdir() if path.is_dir())
    for number, group in enumerate((tops[:4], tops[4:]), 1):
        with zipfile.ZipFile(bench / f"data{number}.zip", "w") as archive:
            for path in (p for top in group for p in sorted(top.rglob("*")) if p.is_file()):
                archive.write(path, path.relative_to(demo_data).as_posix())
    return bench.parent
