"""Archives as an attacker would make them: refused in one sentence, and nothing is written."""

import stat
import struct
import zipfile

import pytest

from orchestrator.datasets import safe_unzip as unpacking
from orchestrator.datasets.safe_unzip import BadArchive, unzip


def packed(path, *files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return path


def every(name):
    return True


def link(name, mode=stat.S_IFLNK):
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o777) << 16
    return info


HOSTILE = {
    "parent": ([("a/../../x", b"x")], "outside the folder"),
    "absolute": ([("/etc/x", b"x")], "outside the folder"),
    "backslash": ([("a\\..\\x", b"x")], "outside the folder"),
    "drive": ([("C:/x", b"x")], "outside the folder"),
    "dot": ([("a/./x", b"x")], "is no file name"),
    "link": ([(link("a/link"), b"/etc")], "is a link"),
    "device": ([(link("a/tty", stat.S_IFCHR), b"")], "is a link or a device"),
    "bomb": ([("a/bomb", b"\0" * (30 << 20))], "would grow"),
    "file and folder": ([("a/b", b"x"), ("a/b/c", b"y")], "a file and a folder"),
    "long name": ([("a/" + "b" * 2000, b"x")], "is no file name"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_member_stops_everything_before_a_byte_is_written(name, tmp_path):
    files, reason = HOSTILE[name]
    archive = packed(tmp_path / "x.zip", ("fine.txt", b"fine"), *files)

    with pytest.raises(BadArchive, match=reason) as told:
        unzip(archive, tmp_path / "out", every)
    assert str(told.value).startswith("x.zip") and len(str(told.value)) < 500
    assert not (tmp_path / "out").exists() and sorted(p.name for p in tmp_path.iterdir()) == ["x.zip"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_twice_the_same_name(tmp_path):
    with pytest.raises(BadArchive, match="a file twice"):
        unzip(packed(tmp_path / "x.zip", ("a", b"1"), ("a", b"2")), tmp_path / "out", every)


def test_many_small_files_are_a_bomb_too(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_FILES", 10)
    with pytest.raises(BadArchive, match="holds 11 files, more than 10"):
        unzip(packed(tmp_path / "x.zip", *((f"{n}", b"") for n in range(11))), tmp_path / "out", every)
    monkeypatch.setattr(unpacking, "MAX_FILES", 1000)
    files = [(f"{n}", b"\0" * (1 << 20)) for n in range(150)]
    with pytest.raises(BadArchive, match="that is a bomb"):
        unzip(packed(tmp_path / "y.zip", *files), tmp_path / "out", every)


def test_files_that_overlap(tmp_path):
    """Two entries of the directory that share one packed stream, the trick of the largest known bombs."""
    path = packed(tmp_path / "x.zip", ("a", bytes(range(256)) * 40), ("b", bytes(range(256)) * 40))
    data = bytearray(path.read_bytes())
    for place in [n for n in range(len(data) - 4) if data[n : n + 4] == b"PK\x01\x02"]:
        struct.pack_into("<I", data, place + 20, len(data))
    path.write_bytes(data)

    with pytest.raises(BadArchive, match="overlap"):
        unzip(path, tmp_path / "out", every)


def test_a_link_that_was_there_before_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BadArchive, match="through a link"):
        unzip(packed(tmp_path / "x.zip", ("a/x", b"x")), tmp_path / "out", every)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("place", [10, 40, 60, -30, -5])
def test_a_damaged_archive_is_a_sentence(tmp_path, place):
    path = packed(tmp_path / "x.zip", ("a", bytes(range(256)) * 40), ("b/c", b"y" * 100))
    data = bytearray(path.read_bytes())
    data[place] ^= 255
    path.write_bytes(data)

    try:
        unzip(path, tmp_path / "out", every)
    except BadArchive as told:
        assert str(told).startswith("x.zip")
    for name, content in (("a", bytes(range(256)) * 40), ("b/c", b"y" * 100)):
        whole = tmp_path / "out" / name
        assert not whole.exists() or whole.read_bytes() == content, "a damaged file got its final name"


def test_no_archive_at_all(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"hello")
    with pytest.raises(BadArchive, match="is damaged"):
        unzip(tmp_path / "x.zip", tmp_path / "out", every)


def test_what_is_wanted_is_extracted_and_a_second_call_goes_on(tmp_path):
    path = packed(tmp_path / "x.zip", ("test/A/1", b"one"), ("test/A/2", b"two"), ("test/B/3", b"three"))
    out = tmp_path / "out"

    assert unzip(path, out, lambda name: "/A/" in name, strip="test/") == 6
    (out / "A/1").unlink()
    before = (out / "A/2").stat().st_mtime_ns
    assert unzip(path, out, lambda name: "/A/" in name, strip="test/") == 6

    assert (out / "A/1").read_bytes() == b"one" and (out / "A/2").stat().st_mtime_ns == before
    assert not (out / "B").exists()
