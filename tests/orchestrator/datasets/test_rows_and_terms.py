"""Terms of the pictures, rows of the published train split, and names of files that are fetched."""

import errno
from pathlib import Path

import pytest

from envs.samples import BadData
from orchestrator.datasets import staging, weights
from orchestrator.datasets.download import TERMS, describe_terms
from orchestrator.datasets.remote_files import FetchError, RemoteFile
from orchestrator.datasets.sources import BucketFolder
from orchestrator.datasets.staging import Address
from orchestrator.datasets.train_split import SplitRow, parse_row

SOURCES = {
    "ROD": "Realistic Occlusion Dataset, https://huggingface.co/datasets/arielnlee/Realistic-Occlusion-Dataset:"
    " a licence of its own (`other` on its card)",
    "VSOD": "OcclusionDataSet-MM20, https://junhua-liao.github.io/Occlusion-Detection/: no licence named there; ask its authors",
    "MVP-N": "MVP-N, https://github.com/SMNUResearch/MVP-N: no licence named there; ask its authors",
    "IN-C": "ImageNet-C, https://zenodo.org/records/2235448: CC BY 4.0; made of ImageNet, for non-commercial research",
    "QD": "Quick, Draw!, https://github.com/googlecreativelab/quickdraw-dataset: CC BY 4.0",
    "CIT": "ChangeIt, https://github.com/soCzech/ChangeIt: frames of YouTube videos; no licence named there; ask its authors",
    "COCO": "COCO 2014, https://cocodataset.org/#termsofuse: annotations CC BY 4.0; pictures under Flickr's terms",
}


def test_the_terms_of_each_data_set_are_named_with_their_address():
    assert {name: f"{source}, {address}: {terms}" for name, (source, address, terms) in TERMS.items()} == SOURCES
    assert list(describe_terms(["QD", "mine"])) == [
        "the pictures come from other data sets, each under terms of its own (docs/data-sources.md, paper appendix G):",
        "  QD: Quick, Draw!, CC BY 4.0; https://github.com/googlecreativelab/quickdraw-dataset",
    ]


PICTURE = {"bytes": b"png"}
ROW = {
    "prompt": [{"role": "system", "content": []},
               {"role": "user", "content": [{"type": "image", "text": None}, {"type": "text", "text": "What is it?"}]}],
    "ground_truth": "B", "proactive_actions": ["A"], "options": ["A", "B"], "images": [PICTURE],
}  # fmt: skip


def test_a_row_is_a_question_with_one_picture():
    assert parse_row(ROW, 7, "x.parquet") == SplitRow(7, "What is it?", "B", ("A",), ("A", "B"), b"png")
    assert (
        parse_row({**ROW, "proactive_actions": None, "images": [None, {"bytes": None}, PICTURE]}, 7, "x").picture
        == b"png"
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"ground_truth": "C"}, "the ground truth 'C' is not among its options"),
        ({"options": None}, "the ground truth 'B' is not among its options"),
        ({"proactive_actions": ["A", "C", "D"]}, "the proactive action 'C' is not among its options"),
        ({"images": []}, "holds 0 pictures; a question has one"),
        ({"images": None}, "holds 0 pictures; a question has one"),
        ({"images": [PICTURE, PICTURE]}, "holds 2 pictures; a question has one"),
        ({"prompt": None}, "its prompt has no text of a user"),
        ({"prompt": [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]}, "its prompt has no text of a user"),
        ({"prompt": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "its prompt has no text of a user"),
    ],
)  # fmt: skip
def test_a_row_that_is_no_question_is_a_sentence(changed, reason):
    with pytest.raises(BadData) as error:
        parse_row({**ROW, **changed}, 7, "x.parquet")
    assert str(error.value) == f"x.parquet, row 7: {reason}"


@pytest.mark.parametrize(
    ("folder", "path", "relative"),
    [("", "a/b.zip", "a/b.zip"), ("data", "data/b.zip", "b.zip"), ("data", "database/b.zip", "database/b.zip")],
)
def test_a_listed_file_is_named_relative_to_the_address(folder, path, relative):
    address = Address("hf", "org/name", "main", folder)
    assert staging._relative_path(RemoteFile(path, 1, ""), address) == relative


@pytest.mark.parametrize("name", ["/a", "a/../b", "..", "a\0b"])
def test_a_listed_name_that_leads_out_is_refused(name):
    with pytest.raises(FetchError) as error:
        staging._check_name(name)
    assert str(error.value) == f"the listing names {name!r}, which would land outside the folder"
    assert staging._check_name("a/..b/c") == "a/..b/c"


def test_files_that_engines_read_and_copies_that_they_do_not():
    assert weights.READ == ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.py")
    assert weights.WEIGHT_FILES == ("*.safetensors", "*.bin")
    assert weights.COPIES == ("original/*", "consolidated*", "onnx/*", "openvino/*")


def test_a_full_disk_is_named_with_the_bytes_that_arrived(tmp_path, monkeypatch):
    from orchestrator.datasets.remote_files import RemoteFolder

    folder = object.__new__(RemoteFolder)
    part, file = tmp_path / "part", RemoteFile("a/b.zip", 2_000, "")
    part.write_bytes(b"x" * 1_200)
    for number in (errno.ENOSPC, errno.EDQUOT):
        monkeypatch.setattr(RemoteFolder, "_append", lambda *_, n=number: (_ for _ in ()).throw(OSError(n, "no space")))
        with pytest.raises(FetchError, match=r"^the disk is full at 1,200 bytes of a/b\.zip$"):
            folder._continue(file, part)
    monkeypatch.setattr(RemoteFolder, "_append", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    assert "broken" in folder._continue(file, Path(part))
    monkeypatch.setattr(RemoteFolder, "_append", lambda *_: None)
    assert folder._continue(file, part) == "the server sent 1,200 bytes"
    part.write_bytes(b"x" * 2_000)
    assert folder._continue(file, part) == ""


def test_an_object_without_a_version_is_downloaded_from_its_start(tmp_path):
    pytest.importorskip("fsspec", reason="the extra `cloud` is not installed")
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket/a.zip").write_bytes(b"0123456789")
    arrived: list[int] = []
    folder = BucketFolder(f"file://{tmp_path}/bucket/", arrived.append)
    [listed] = folder.files()
    assert (listed.path, listed.size) == ("a.zip", 10) and listed.version
    for version, expected, sizes in (("v", b"XXX3456789", [7]), ("", b"0123456789", [10])):
        target = tmp_path / f"target{version}"
        folder._part(RemoteFile("a.zip", 10, "", version), target).write_bytes(b"XXX")
        arrived.clear()
        assert (
            folder.download(RemoteFile("a.zip", 10, "", version), target).read_bytes() == expected and arrived == sizes
        )
