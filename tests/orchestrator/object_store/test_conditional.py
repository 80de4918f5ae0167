"""Conditional writes: a refused condition is a lost race, a fault is raised, and no service is asked without its condition."""

import errno

import pytest

from orchestrator.object_store import bucket
from orchestrator.object_store.bucket import FAILED_CONDITION_CODES, Bucket, Unsupported


class RecordingService:
    """An fsspec file system of a service: it notes each request, and answers with ``fault`` where there is one."""

    def __init__(self, protocol, fault: Exception | None = None) -> None:
        self.protocol, self.fault, self.requests = protocol, fault, []
        self._location = "https://storage.example"

    def split_path(self, path):
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call_s3(self, *operation, **options):
        self._call(*operation, **options)

    def call(self, *operation, **options):
        self._call(*operation, **options)

    def _call(self, *operation, **options):
        self.requests.append((operation, options))
        if self.fault is not None:
            raise self.fault


def s3_error(code: str, number: int = 0) -> OSError:
    """Return an error as s3fs raises it: the service's answer is in its cause."""
    cause = Exception(code)
    cause.response = {"Error": {"Code": code}}
    error = OSError(number, code)
    error.__cause__ = cause
    return error


def open_bucket(monkeypatch, protocol, fault: Exception | None = None) -> Bucket:
    service = RecordingService(protocol, fault)
    monkeypatch.setattr(bucket, "_open_file_system", lambda url: (service, "b/run"))
    return Bucket("s3://b/run")


def test_each_service_writes_only_under_its_condition(monkeypatch):
    s3, gcs = open_bucket(monkeypatch, ("s3", "s3a")), open_bucket(monkeypatch, ("gs", "gcs"))

    assert s3.replace("lock", b"new", "v1") and s3.replace("lock", None, "v2")
    assert s3.fs.requests == [
        (("put_object",), {"Bucket": "b", "Key": "run/lock", "Body": b"new", "IfMatch": "v1"}),
        (("delete_object",), {"Bucket": "b", "Key": "run/lock", "IfMatch": "v2"}),
    ]
    assert gcs.replace("lock", b"new", "7") and gcs.replace("lock", None, "8")
    upload = {"uploadType": "media", "name": "run/lock", "data": b"new", "ifGenerationMatch": "7"}
    assert gcs.fs.requests == [
        (("POST", "https://storage.example/upload/storage/v1/b/{}/o", "b"), upload),
        (("DELETE", "b/{}/o/{}", "b", "run/lock"), {"ifGenerationMatch": "8"}),
    ]


REFUSALS = [
    *(("s3", s3_error(code)) for code in FAILED_CONDITION_CODES),
    ("gs", FileExistsError()),
    ("gs", FileNotFoundError()),
]


@pytest.mark.parametrize(("protocol", "fault"), REFUSALS)
def test_a_refused_condition_changes_nothing_and_is_no_error(monkeypatch, protocol, fault):
    refusing = open_bucket(monkeypatch, protocol, fault)

    assert refusing.replace("lock", b"", "v") is refusing.replace("lock", None, "v") is False


def test_a_service_without_conditions_is_noticed_before_two_drivers_write(monkeypatch):
    fault = s3_error("NotImplemented", errno.ENOSYS)
    for without in (open_bucket(monkeypatch, "s3", fault), open_bucket(monkeypatch, "file")):
        with pytest.raises(Unsupported):
            without.replace("lock", b"", "v")
        assert not without.supports_conditions()
