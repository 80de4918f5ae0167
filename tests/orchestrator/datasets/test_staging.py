"""Data by address: each of two local nodes brings itself what it needs, once, and plays as from a plain folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from orchestrator.datasets.safe_unzip import BadArchive
from orchestrator.datasets.sources import FetchError, RemoteFolder, parse_address
from orchestrator.datasets.staging import stage
from sweeps.load import SweepError, build
from tests.conftest import ENVIRONMENT, PYTHONPATH, ROOT, Cli
from tests.orchestrator.hubserver import COMMIT, Hub, serving

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
DATASET = "someone/bench"
LINES = "QuickDraw_preprocessed.jsonl"
USED = {"scenarios": ["QD", "ROD"], "conditions": ["zero-shot"], "name": "staged"}


@pytest.fixture
def hub(published):
    with serving(Hub(published, DATASET)) as running:
        yield running


def same_files(home: Path, demo: Path, tops: tuple[str, ...]) -> bool:
    files = [path for top in tops for path in (demo / top).rglob("*") if path.is_file()]
    return bool(files) and all((home / p.relative_to(demo)).read_bytes() == p.read_bytes() for p in files)


def test_a_damaged_archive_is_a_sentence_and_leaves_whole_files(published, demo_data, tmp_path):
    bad = tmp_path / "bad/test"
    shutil.copytree(published / "test", bad)
    for archive in bad.glob("*.zip"):
        content = bytearray(archive.read_bytes())
        with zipfile.ZipFile(archive) as zipped:
            end = zipped.start_dir
        half = slice(end // 2, end - 100)  # good pictures come first, damaged ones after them
        content[half] = bytes(byte ^ 255 for byte in content[half])
        archive.write_bytes(content)
    address = bad.as_uri()
    with pytest.raises(BadArchive, match=r"data\d\.zip.*damaged.*same command fetches it again"):
        stage(address, ["QD", "ROD"], str(tmp_path / "cache"), print)
    assert not list((tmp_path / "cache").rglob("*.zip")) and not list((tmp_path / "cache").rglob("*.part"))
    (home,) = (tmp_path / "cache/data").iterdir()
    for path in home.rglob("*.jpg"):
        assert path.read_bytes() == (demo_data / path.relative_to(home)).read_bytes()
    shutil.copytree(published / "test", bad, dirs_exist_ok=True)
    assert same_files(stage(address, ["QD"], str(tmp_path / "cache"), print), demo_data, ("QuickDraw",))


def test_a_web_folder_is_refused_with_the_release_that_read_it(tmp_path):
    with pytest.raises(FetchError, match=r"0\.2\.0 was the last.*name its folder"):
        stage("http://127.0.0.1:9/test", ["QD"], str(tmp_path), print)


@pytest.mark.long
def test_killed_staging_resumes_and_second_one_waits(hub, demo_data, tmp_path):
    code = "import sys; from orchestrator.datasets.staging import stage; stage(sys.argv[1], ['QD', 'ROD'], sys.argv[2], print)"

    hub.pace = 1.0

    def start_staging():
        return subprocess.Popen(
            [sys.executable, "-c", code, f"hf://{DATASET}/test", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.address, "PYTHONUNBUFFERED": "1",
                 "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip

    first = start_staging()
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.incomplete")):
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.02)
    second = start_staging()
    assert "waiting" in second.stdout.readline()
    hub.pace = 0.0
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=30)
    out, _ = second.communicate(timeout=90)

    assert second.returncode == 0, out
    home = next((tmp_path / "data").iterdir())
    assert same_files(home, demo_data, ("QuickDraw",)) and (home / "ROD.complete").exists()
    assert not list(home.rglob("*.part")) and not list(home.rglob("*.zip"))


@pytest.mark.parametrize("address", ["ftp://host/x", "https://me:secret@host/x", "https://host/x?signature=1"])
def test_invalid_address_is_one_sentence(address):
    with pytest.raises(SweepError, match="data = "):
        build({**USED, "data": address, "models": ["oracle"]}, "s.toml")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_web_folder_is_refused_before_anything_is_asked(scheme, tmp_path):
    with pytest.raises(FetchError, match=r"web folders; download it"):
        RemoteFolder(parse_address(f"{scheme}://host/x"), tmp_path)


def test_addresses():
    assert str(parse_address(f"hf://a/b@{COMMIT}/test")) == f"hf://a/b@{COMMIT}/test"
    assert str(parse_address("hf://datasets/a/b")) == "hf://a/b@main" and not parse_address("hf://a/b").fixed
    assert parse_address("some/folder") is None
    with pytest.raises(FetchError, match="hf://OWNER/NAME"):
        parse_address("hf://only")


@pytest.fixture
def nodes(tmp_path, request):
    """Two local Ray nodes with two CPUs and a cache each, and none of it shared; the hub's address is theirs to know."""
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    cluster, caches = Cluster(), [tmp_path / "one", tmp_path / "two"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("HF_HUB_OFFLINE", "0")
        try:
            for cache in caches:
                patch.setenv("PROACTIVE_SWEEP_CACHE", str(cache))
                patch.setenv("HF_ENDPOINT", request.getfixturevalue("hub").address)
                cluster.add_node(num_cpus=2, include_dashboard=False, env_vars={"PROACTIVE_SWEEP_CACHE": str(cache)})
            patch.setenv("PROACTIVE_SWEEP_CACHE", str(tmp_path / "driver"))
            environment = {**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": PYTHONPATH}
            yield Cli({**environment, "PYTHONUNBUFFERED": "1"}), caches
        finally:
            cluster.shutdown()


def sweep(folder: Path, data: object) -> Path:
    """Four workers, so that each node has two."""
    models = ["oracle", "uniform", "guess"]
    path = folder / "staged.toml"
    path.write_text(
        f'name = "staged"\ndata = "{data}"\nmodels = {models}\nscenarios = ["QD", "ROD"]\n'
        'conditions = ["zero-shot", "hint"]\n[selection]\nlimit = 4\n[tracking]\nuri = "none"\n[cluster]\nworkers = 4\n'
    )
    return path


WAITERS = """
import asyncio, json, sys
from pathlib import Path
import ray
from orchestrator.execution.ray_cluster import connect
from orchestrator.datasets.node_staging import stage_on_node
from orchestrator.datasets.staging import pin_data
from sweeps.load import load

async def main():
    sweep = pin_data(load(Path(sys.argv[1])))
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    found = await asyncio.gather(*(stage_on_node(sweep, node, "host") for node in nodes * 2))
    print(json.dumps(found))

connect()
asyncio.run(main())
"""
"""Two workers a node wait for their data at once, as the driver has them wait."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(500)
def test_two_nodes_without_a_shared_disk_stage_once_each(nodes, hub, published, demo_data, tmp_path):
    cli, caches = nodes
    address = f"hf://{DATASET}/test"
    waited = subprocess.run(
        [sys.executable, "-c", WAITERS, str(sweep(tmp_path, address))],
        env=cli.environment, cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert waited.returncode == 0, waited.stderr
    homes = [Path(text) for text in json.loads(waited.stdout.splitlines()[-1])]
    assert sorted(homes[:2]) == sorted(homes[2:]) and {home.parents[1] for home in homes} == set(caches)
    assert all(same_files(home, demo_data, ("QuickDraw",)) for home in homes)
    assert waited.stderr.count(": staged ROD, QD") + waited.stderr.count(": staged QD, ROD") == 2
    once = {path.name: path.stat().st_size for path in (published / "test").glob("*.zip")}
    fetched = {name.rpartition("/")[2]: sent for name, sent in hub.sent.items() if name.endswith(".zip")}
    assert fetched and fetched == {name: 2 * once[name] for name in fetched}, "not once a node"

    before = {name: sent for name, sent in hub.sent.items() if name.endswith(".zip")}
    done = cli.run("run", sweep(tmp_path, address), "--output", tmp_path / "out", timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert before == {name: sent for name, sent in hub.sent.items() if name.endswith(".zip")}, "fetched again"
    assert not list((tmp_path / "driver").rglob("*.jpg")), "the driver needs lines, not pictures"
    assert f"hf://{DATASET}@{COMMIT}/test" in (tmp_path / "out/sweep.resolved.toml").read_text()

    plain = cli.run("run", sweep(tmp_path, demo_data), "--output", tmp_path / "plain", timeout=180)
    assert plain.returncode == 0, plain.stderr
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("out", "plain")]
    assert results[0] == results[1]
    report = cli.run("report", tmp_path / "out", timeout=120)
    assert report.returncode == 0, report.stderr


# -- a bucket ----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bucket(published, demo_data):
    """A real S3 service with the benchmark twice: as archives, and as the pictures themselves."""
    pytest.importorskip("s3fs", reason="the extra `cloud` is not installed")
    import fsspec

    from tests.orchestrator.buckets import BUCKET, service

    with service() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        system = fsspec.filesystem("s3", skip_instance_cache=True)
        system.put(f"{published / 'test'}/", f"{BUCKET}/packed/", recursive=True, batch_size=8)
        system.put(f"{demo_data}/", f"{BUCKET}/loose/", recursive=True, batch_size=8)
        yield running


@pytest.mark.parametrize("form", ["packed", "loose"])
def test_a_bucket_is_staged_once_and_only_what_is_needed(bucket, demo_data, tmp_path, form):
    messages: list[str] = []
    home = stage(f"s3://sweeps/{form}", ["QD"], str(tmp_path), messages.append)
    again = stage(f"s3://sweeps/{form}/", ["QD"], str(tmp_path), messages.append)

    assert home == again and messages[-1].endswith("is staged already")
    assert same_files(home, demo_data, ("QuickDraw",))
    assert [path.name for path in home.iterdir() if path.is_dir()] == ["QuickDraw"], "more than was asked for"
    assert not any("secret" in line for line in messages)
