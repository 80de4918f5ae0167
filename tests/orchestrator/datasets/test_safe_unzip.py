"""Archives as an attacker would make them: refused in one sentence, and nothing is written."""

import stat
import struct
import zipfile

import pytest

from orchestrator.datasets import safe_unzip as unpacking
from orchestrator.datasets.safe_unzip import BadArchive, unzip


def write_archive(path, *files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return path


def accept_all(name):
    return True


def link(name, mode=stat.S_IFLNK):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (mode | 0o777) << 16
    return entry


HOSTILE = {
    "parent": ([("a/../../x", b"x")], "outside the folder"),
    "absolute": ([("/etc/x", b"x")], "outside the folder"),
    "backslash": ([("a\\..\\x", b"x")], "outside the folder"),
    "drive": ([("C:/x", b"x")], "outside the folder"),
    "dot": ([("a/./x", b"x")], "is no file name"),
    "empty folder name": ([("a//x", b"x")], "is no file name"),
    "long name": ([("/".join(["b" * 100] * 11), b"x")], "is no file name"),
    "long part": ([("a/" + "é" * 101, b"x")], "is no file name"),
    "case twin": ([("a/X", b"x"), ("a/x", b"y")], "differ by case or form"),
    "form twin": ([("a/\u00e9", b"x"), ("a/e\u0301", b"y")], "differ by case or form"),
    "link": ([(link("a/link"), b"/etc")], "is a link"),
    "device": ([(link("a/tty", stat.S_IFCHR), b"")], "is a link or a device"),
    "bomb": ([("a/bomb", b"\0" * (30 << 20))], "would grow"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_member_is_refused_before_any_write(name, tmp_path):
    files, reason = HOSTILE[name]
    archive = write_archive(tmp_path / "x.zip", ("fine.txt", b"fine"), *files)

    with pytest.raises(BadArchive, match=reason) as raised:
        unzip(archive, tmp_path / "out", accept_all)
    assert str(raised.value).startswith("x.zip") and len(str(raised.value)) < 500
    assert not (tmp_path / "out").exists() and sorted(p.name for p in tmp_path.iterdir()) == ["x.zip"]


def test_many_small_files_are_a_bomb_too(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_FILES", 10)
    with pytest.raises(BadArchive, match="holds 11 files, more than 10"):
        unzip(write_archive(tmp_path / "x.zip", *((f"{n}", b"") for n in range(11))), tmp_path / "out", accept_all)
    monkeypatch.setattr(unpacking, "MAX_FILES", 1000)
    files = [(f"{n}", b"\0" * (1 << 20)) for n in range(150)]
    with pytest.raises(BadArchive, match="that is a bomb"):
        unzip(write_archive(tmp_path / "y.zip", *files), tmp_path / "out", accept_all)


def test_overlapping_files_are_refused(tmp_path):
    """Two entries of the directory that share one packed stream, the trick of the largest known bombs."""
    path = write_archive(tmp_path / "x.zip", ("a", bytes(range(256)) * 40), ("b", bytes(range(256)) * 40))
    content = bytearray(path.read_bytes())
    for offset in [n for n in range(len(content) - 4) if content[n : n + 4] == b"PK\x01\x02"]:
        struct.pack_into("<I", content, offset + 20, len(content))
    path.write_bytes(content)

    with pytest.raises(BadArchive, match="overlap"):
        unzip(path, tmp_path / "out", accept_all)


def test_a_link_that_was_there_before_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BadArchive, match="through a link"):
        unzip(write_archive(tmp_path / "x.zip", ("a/x", b"x")), tmp_path / "out", accept_all)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("offset", [10, 40, 60, -30, -5])
def test_a_damaged_archive_is_a_sentence(tmp_path, offset):
    path = write_archive(tmp_path / "x.zip", ("a", bytes(range(256)) * 40), ("b/c", b"y" * 100))
    raw = bytearray(path.read_bytes())
    raw[offset] ^= 255
    path.write_bytes(raw)

    try:
        unzip(path, tmp_path / "out", accept_all)
    except BadArchive as error:
        assert str(error).startswith("x.zip")
    for name, content in (("a", bytes(range(256)) * 40), ("b/c", b"y" * 100)):
        extracted = tmp_path / "out" / name
        assert not extracted.exists() or extracted.read_bytes() == content, "a damaged file got its final name"


def test_no_archive_at_all(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"hello")
    with pytest.raises(BadArchive, match="is damaged"):
        unzip(tmp_path / "x.zip", tmp_path / "out", accept_all)


def test_wanted_files_are_extracted_and_second_call_resumes(tmp_path):
    path = write_archive(tmp_path / "x.zip", ("test/A/1", b"one"), ("test/A/2", b"two"), ("test/B/3", b"three"))
    out = tmp_path / "out"

    unzip(path, out, lambda name: name.startswith("A/"))
    (out / "A/1").unlink()
    before = (out / "A/2").stat().st_mtime_ns
    unzip(path, out, lambda name: name.startswith("A/"))

    assert (out / "A/1").read_bytes() == b"one" and (out / "A/2").stat().st_mtime_ns == before
    assert not (out / "B").exists()


def test_an_encrypted_file_is_refused(tmp_path):
    path = write_archive(tmp_path / "x.zip", ("a/secret", b"x"))
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    path.write_bytes(content)

    with pytest.raises(BadArchive, match=r"a/secret.*is encrypted"):
        unzip(path, tmp_path / "out", accept_all)
    assert not (tmp_path / "out").exists()


def write_claim(path, content, size):
    """Write an archive whose directory states another size for its only file; its checksum is the content's."""
    write_archive(path, ("a/file", content))
    raw = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", raw, raw.index(signature) + offset, size)
    path.write_bytes(raw)
    return path


def test_a_file_shorter_than_its_directory_says_is_damaged_and_leaves_nothing(tmp_path):
    with pytest.raises(BadArchive, match=r"^x\.zip is damaged: 'a/file' should have 1,300 bytes"):
        unzip(write_claim(tmp_path / "x.zip", b"1234" * 300, 1_300), tmp_path / "out", accept_all)
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["a"]


def test_a_file_longer_than_its_directory_says_is_read_to_that_size_and_damaged(tmp_path):
    with pytest.raises(BadArchive, match=r"^x\.zip is damaged: Bad CRC-32"):
        unzip(write_claim(tmp_path / "x.zip", b"1234" * 300_000, 1_000), tmp_path / "out", accept_all)
    assert sum(path.stat().st_size for path in (tmp_path / "out").rglob("*.part")) <= 1_000


def test_a_small_file_may_grow_by_any_factor_and_a_large_one_by_a_hundred(tmp_path):
    unzip(write_archive(tmp_path / "x.zip", ("a", bytes(1 << 20))), tmp_path / "out", accept_all)
    with pytest.raises(BadArchive, match=r"^y\.zip: 'a' would grow from [\d,]+ to 1,048,577 bytes$"):
        unzip(write_archive(tmp_path / "y.zip", ("a", bytes((1 << 20) + 1))), tmp_path / "out", accept_all)
