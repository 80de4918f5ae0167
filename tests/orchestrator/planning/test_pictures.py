"""The pictures that episodes show, and their hashes: once read, read again only if touched, and never trusted after a change."""

from hashlib import blake2b
from threading import Event

import pytest

from envs.check import reachable_pictures
from orchestrator.planning import pictures
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.pictures import FILE, PictureFile, read_pictures, record_pictures, shown_paths
from orchestrator.storage import checksums
from tests.orchestrator.report import runs

ENTRY = {"name": "m", "source": "org/m", "backend": "transformers"}


def plan_of(demo_data, conditions, scenarios=("QD",), models=("m",), **more):
    more |= {"scenarios": list(scenarios), "model": [ENTRY]}
    return build_plan(runs.sweep(demo_data, list(models), list(conditions), **more))


def test_solved_examples_are_shown_too(demo_data):
    plan = plan_of(demo_data, ["zero-shot", "icl-3"], ["MVP-N"])
    by_condition = {cell.condition.name: cell for cell in plan.cells}
    sample = plan.cell_samples(plan.cells[0])[0]
    plain, with_examples = (shown_paths(plan, by_condition[name], sample) for name in ("zero-shot", "icl-3"))
    assert plain < with_examples
    others = {ref.path for other in plan.pools["MVP-N"] if other.id != sample.id for ref in reachable_pictures(other)}
    assert with_examples - plain <= others | plain


def write(folder, **contents):
    for name, content in contents.items():
        (folder / f"{name}.png").write_bytes(content)


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    write(tmp_path / "data", a=b"one", b=b"two")
    return tmp_path / "data"


def record(folder, data, *names, stop=None):
    record_pictures(folder, data, [f"{name}.png" for name in names], stop or Event())
    return {path.removesuffix(".png"): picture.sum for path, picture in read_pictures(folder).items()}


def digest(content):
    return blake2b(content, digest_size=16).hexdigest()


def test_hashes_are_recorded_and_more_are_added(tmp_path, data):
    assert record(tmp_path, data, "a") == {"a": digest(b"one")}
    assert record(tmp_path, data, "a", "b", "gone") == {"a": digest(b"one"), "b": digest(b"two"), "gone": ""}
    status = (data / "a.png").stat()
    expected = PictureFile("a.png", 3, status.st_mtime_ns, status.st_ctime_ns, digest(b"one"))
    assert read_pictures(tmp_path)["a.png"] == expected
    assert checksums.damaged_files(tmp_path) == []
    before = (tmp_path / FILE).stat().st_mtime_ns
    record(tmp_path, data, "a", "b")
    assert (tmp_path / FILE).stat().st_mtime_ns == before, "nothing new is nothing to write"


def test_a_picture_that_changed_never_gets_a_hash_again(tmp_path, data, caplog):
    record(tmp_path, data, "a", "b")
    write(data, a=b"another")
    assert record(tmp_path, data, "a", "b") == {"a": "changed", "b": digest(b"two")}
    assert "1 " in caplog.text and "a.png" in caplog.text
    caplog.clear()
    write(data, a=b"one")
    assert record(tmp_path, data, "a", "b") == {"a": "changed", "b": digest(b"two")} and caplog.text == ""


def test_hashes_are_taken_beside_an_attempt_and_wait_for_its_end(tmp_path, demo_data):
    plan = plan_of(demo_data, ["zero-shot"])
    with pictures.recording_pictures(tmp_path, str(demo_data), plan, plays=True) as stop:
        assert not stop.is_set()
    recorded = read_pictures(tmp_path)
    assert set(recorded) == set(pictures.all_paths(plan)) and all(len(p.sum) == 32 for p in recorded.values())
