"""A bucket in a local folder: what a service answers, and errors that say what was tried."""

import pytest

from envs.errors import RunFolderError
from orchestrator.object_store.bucket import Bucket


@pytest.fixture
def bucket(tmp_path):
    (tmp_path / "bucket").mkdir()
    return Bucket(f"file://{tmp_path}/bucket/run/")


def test_objects_are_written_listed_read_and_deleted(bucket):
    assert bucket.list_objects() == {} and bucket.read("a") is None
    (bucket.fs.mkdirs(bucket.root, exist_ok=True), bucket.fs.mkdirs(f"{bucket.root}/sub"))
    bucket.write("a", b"12")
    bucket.write("sub/b", b"345")

    assert bucket.list_objects() == {"a": 2, "sub/b": 3} and bucket.list_objects("sub") == {"b": 3}
    assert bucket.read("a") == b"12" and not bucket.create("a", b"3") and bucket.create("c", b"4")
    bucket.delete(["missing", "a", "c"])
    assert list(bucket.list_objects()) == ["sub/b"]
    assert bucket.url.endswith("/bucket/run")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://key:secret@bucket/run", "the address of bucket/run holds more than a bucket and a folder; keys belong"),
        ("s3://bucket/run?key=secret", "the address of bucket/run holds more than a bucket and a folder; keys belong"),
        ("s3://[bucket/run", "s3://[bucket/run cannot be opened (Invalid IPv6 URL); write s3://BUCKET/FOLDER"),
        ("s3:///run", "s3:///run names no bucket; write s3://BUCKET/FOLDER"),
        ("nowhere://bucket/run", "nowhere://bucket/run cannot be opened (Protocol not known: nowhere); write s3:"),
    ],
)
def test_an_address_that_is_none_is_a_sentence_without_secrets(url, reason):
    with pytest.raises(RunFolderError) as error:
        Bucket(url)
    assert str(error.value).startswith(reason) and "secret" not in str(error.value)
