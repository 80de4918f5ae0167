"""``data fetch`` from a server on loopback that speaks the Hub's protocol: whole, broken, resumed, lied to and attacked."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import PYTHONPATH, ROOT
from tests.orchestrator.hubserver import COMMIT, Hub, serving

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
DATASET = "tdemin16/ProactiveBench"
ARCHIVES = ("test/data1.zip", "test/data2.zip")


@pytest.fixture
def hub(published):
    with serving(Hub(published, DATASET)) as running:
        yield running


def fetch(hub, folder, *options, offline="0", path="", command="fetch"):
    """`proactive-sweep data fetch FOLDER ...`, asking the server on loopback."""
    environment = {
        **os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": offline, "HF_HOME": str(folder.parent / "hf"),
        "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONPATH": f"{path}{PYTHONPATH}",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1",
    }  # fmt: skip
    words = [sys.executable, "-m", "orchestrator", "data", command, str(folder), *options]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=180, cwd=ROOT)


def assert_refused(done, *words):
    """One sentence on stderr, exit code 2, no traceback."""
    assert done.returncode == 2, done.stdout + done.stderr
    messages = [line for line in done.stderr.splitlines() if line.startswith("proactive-sweep: ")]
    assert len(messages) == 1 and "Traceback" not in done.stderr and "signature" not in done.stderr
    for word in words:
        assert word in messages[0]


def test_everything_arrives_is_unpacked_and_checked(hub, tmp_path, demo_data):
    done = fetch(hub, tmp_path / "bench")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "all good" in done.stdout and f"at commit {COMMIT}" in done.stdout and "GB are free" in done.stdout
    for path in (p for p in demo_data.rglob("*") if p.is_file()):
        assert (tmp_path / "bench/test" / path.relative_to(demo_data)).read_bytes() == path.read_bytes()
    assert json.loads((tmp_path / "bench/fetched.json").read_text())["commit"] == COMMIT
    assert not (tmp_path / "bench/test/.arriving").exists()
    assert not list((tmp_path / "bench").rglob("*.zip"))


def test_only_what_the_chosen_scenarios_need_arrives_once(hub, tmp_path):
    bench, options = tmp_path / "bench", ("--scenarios", "QD")
    done = fetch(hub, bench, *options)

    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (bench / "test").iterdir()} == {"QuickDraw", "QuickDraw_preprocessed.jsonl"}
    assert sum(name.endswith(".zip") for name in hub.sent) == 1, "an archive without sketches was fetched"
    sent_before = dict(hub.sent)
    assert fetch(hub, bench, *options).returncode == 0
    assert hub.sent == sent_before, "what was unpacked and deleted must not be fetched again"


def test_a_broken_download_is_resumed(hub, tmp_path):
    name = ARCHIVES[0]
    size = (hub.folder / name).stat().st_size
    hub.cuts[name] = [size // 2] * 3
    runs = [fetch(hub, tmp_path / "bench")]
    while runs[-1].returncode and len(runs) < 4:
        assert_refused(runs[-1], "broke off", "rerun the same command to resume")
        runs.append(fetch(hub, tmp_path / "bench"))

    assert runs[-1].returncode == 0, runs[-1].stdout + runs[-1].stderr


def test_changed_bytes_are_noticed_and_removed(hub, tmp_path):
    hub.spoiled |= set(ARCHIVES)
    assert_refused(fetch(hub, tmp_path / "bench"), "data1.zip")
    assert not list((tmp_path / "bench").rglob("*.zip"))

    hub.spoiled.clear()
    assert fetch(hub, tmp_path / "bench").returncode == 0


def test_disk_space_is_checked_first(hub, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import shutil, collections\nU = collections.namedtuple('U', 'total used free')\n"
        "shutil.disk_usage = lambda path: U(1, 1, 1 << 20)\n"
    )
    done = fetch(hub, tmp_path / "bench", path=f"{tmp_path}{os.pathsep}")

    assert_refused(done, "GB free")
    assert not list((tmp_path / "bench").rglob("*.zip"))


def hostile_hub(published: Path, tmp_path: Path, member: str) -> Path:
    """Return a copy of the lines beside an archive with one bad member."""
    bad = tmp_path / "hub/test"
    bad.mkdir(parents=True)
    for path in (published / "test").glob("*.jsonl"):
        (bad / path.name).write_bytes(path.read_bytes())
    with zipfile.ZipFile(bad / "data1.zip", "w") as archive:
        archive.writestr(member, b"x")
    return bad.parent


@pytest.mark.parametrize("member", ["QuickDraw/../../../escaped.png", "/tmp/escaped.png"])
def test_a_hostile_archive_writes_nothing(published, tmp_path, member):
    with serving(Hub(hostile_hub(published, tmp_path, member), DATASET)) as hub:
        assert_refused(fetch(hub, tmp_path / "bench", "--scenarios", "QD"), "data1.zip", "outside the folder")

    assert not list(tmp_path.rglob("escaped.png")) and not Path("/tmp/escaped.png").exists()


def test_mistakes_are_sentences(hub, tmp_path):
    assert_refused(fetch(hub, tmp_path / "a", "--scenarios", "QDD"), "no scenario 'QDD'", "did you mean 'QD'")
    assert_refused(fetch(hub, tmp_path / "b", offline="1"), "cannot fetch tdemin16/ProactiveBench at main from the Hub")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/fetched.json").write_text(json.dumps({"commit": "0" * 40}))
    assert_refused(fetch(hub, tmp_path / "c", "--revision", "main"), "0" * 40, "name another folder")
    absent = Hub(hub.folder, "someone/else")
    absent.address = hub.address
    lines = hub.folder / "test/QuickDraw_preprocessed.jsonl"
    moved = lines.rename(hub.folder / "moved.jsonl")
    assert_refused(fetch(hub, tmp_path / "d", "--scenarios", "QD"), "holds no QuickDraw_preprocessed.jsonl")
    moved.rename(lines)
