"""A fetch from a server on loopback that speaks the Hub's protocol: whole, broken, resumed, lied to and attacked."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from envs import SCENARIOS
from tests.orchestrator.hubserver import COMMIT, Hub, serving

ROOT = Path(__file__).parents[3]
DATASET = "tdemin16/ProactiveBench"
pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")


@pytest.fixture(scope="module")
def published(demo_data, tmp_path_factory):
    """The demo benchmark as the published one is: folder test/, seven JSONL files, archives named by number."""
    folder = tmp_path_factory.mktemp("hub")
    bench = folder / "test"
    bench.mkdir()
    for path in demo_data.glob("*.jsonl"):
        (bench / path.name).write_bytes(path.read_bytes())
    tops = sorted(path for path in demo_data.iterdir() if path.is_dir())
    for number, group in enumerate((tops[:3], tops[3:5], tops[5:]), 1):
        with zipfile.ZipFile(bench / f"data{number}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in (p for top in group for p in sorted(top.rglob("*")) if p.is_file()):
                archive.write(path, path.relative_to(demo_data).as_posix())
    return folder


@pytest.fixture
def hub(published):
    with serving(Hub(published, DATASET)) as running:
        yield running


def fetch(hub, folder, *options, offline="0"):
    """`proactive-sweep data fetch FOLDER ...`, asking the server on loopback."""
    environment = {
        **os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": offline, "HF_HOME": str(folder.parent / "hf"),
        "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "orchestrator", "data", "fetch", str(folder), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, cwd=ROOT)


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


def test_only_what_the_chosen_scenarios_need(hub, tmp_path):
    done = fetch(hub, tmp_path / "bench", "--scenarios", "QD", "--delete-archives")

    assert done.returncode == 0, done.stdout + done.stderr
    bench = tmp_path / "bench/test"
    assert [path.name for path in bench.iterdir() if path.is_dir()] == ["QuickDraw"]
    assert not list(bench.glob("*.zip")) and [path.name for path in bench.glob("*.jsonl")] == [
        "QuickDraw_preprocessed.jsonl"
    ]
    assert sum(name.endswith(".zip") for name in hub.sent) == 1, "an archive without sketches was fetched"
    assert done.stdout.count("nothing in it is needed") == 2

    sent_before = dict(hub.sent)
    assert fetch(hub, tmp_path / "bench", "--scenarios", "QD", "--delete-archives").returncode == 0
    assert hub.sent == sent_before, "what was unpacked and deleted must not be fetched again"


def test_a_broken_download_goes_on_where_it_stopped(hub, tmp_path):
    name = "test/data1.zip"
    size = (hub.folder / name).stat().st_size
    hub.cuts[name] = [size // 3, size // 3]
    done = fetch(hub, tmp_path / "bench", "--scenarios", "ROD,CIT,COCO,IN-C,MVP-N")

    assert done.returncode == 0, done.stdout + done.stderr
    assert hub.cuts[name] == [] and hub.sent[name] == size, "it began anew"


def test_failing_server_is_one_sentence_and_next_call_resumes(hub, tmp_path):
    name = "test/data1.zip"
    size = (hub.folder / name).stat().st_size
    hub.cuts[name] = [size // 2] + [0] * 200
    assert_refused(fetch(hub, tmp_path / "bench"), "broke off at", "rerun the same command to resume")

    hub.cuts.clear()
    before = hub.sent[name]
    assert fetch(hub, tmp_path / "bench").returncode == 0
    assert before == size // 2 and hub.sent[name] == size


def test_a_wrong_size_and_changed_bytes_are_noticed(hub, tmp_path):
    name = "test/QuickDraw_preprocessed.jsonl"
    hub.lies[name] = (hub.folder / name).stat().st_size + 100
    assert_refused(fetch(hub, tmp_path / "one", "--scenarios", "QD"), name, "broke off")

    hub.lies.clear()
    hub.spoiled |= {f"test/data{number}.zip" for number in (1, 2, 3)}
    assert_refused(fetch(hub, tmp_path / "two"), "SHA-256")
    assert not list((tmp_path / "two/test").glob("*.zip"))


def test_disk_space_is_checked_first(hub, tmp_path):
    tool = tmp_path / "sitecustomize.py"
    tool.write_text("import shutil, collections\nU = collections.namedtuple('U', 'total used free')\n"
                    "shutil.disk_usage = lambda path: U(1, 1, 1 << 20)\n")  # fmt: skip
    environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1",
                   "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}  # fmt: skip
    command = [sys.executable, "-m", "orchestrator", "data", "fetch", str(tmp_path / "bench")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=ROOT)

    assert_refused(done, "GB free", "--delete-archives")
    assert not list((tmp_path / "bench").rglob("*.zip"))


def test_a_hostile_archive_writes_nothing(published, tmp_path):
    bad = tmp_path / "hub/test"
    bad.mkdir(parents=True)
    for path in (published / "test").glob("*.jsonl"):
        (bad / path.name).write_bytes(path.read_bytes())
    with zipfile.ZipFile(bad / "data1.zip", "w") as archive:
        archive.writestr("QuickDraw/../../../escaped.png", b"x")
    with serving(Hub(tmp_path / "hub", DATASET)) as hub:
        assert_refused(fetch(hub, tmp_path / "bench", "--scenarios", "QD"), "data1.zip", "outside the folder")

    assert not list(tmp_path.rglob("escaped.png"))


def test_mistakes_are_sentences(hub, tmp_path):
    assert_refused(fetch(hub, tmp_path / "a", "--scenarios", "QDD"), "no scenario 'QDD'", ", ".join(SCENARIOS))
    assert_refused(fetch(hub, tmp_path / "b", offline="1"), "the Hub did not give")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/fetched.json").write_text(json.dumps({"commit": COMMIT, "archives": {}}))
    unreachable = Hub(hub.folder, DATASET)
    unreachable.address = "http://127.0.0.1:9"
    done = fetch(unreachable, tmp_path / "d")
    assert_refused(done, "the Hub did not give")
    assert not re.search(r"0x[0-9a-f]{6}", done.stderr)
