"""Conditional writes: a refused condition is a lost race, a fault is raised, and no service is asked without its condition."""

import errno

import pytest

from orchestrator.object_store.conditional import S3, Conditions, Gcs, Unsupported, conditions, unsupported


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


def test_each_service_writes_only_under_its_condition():
    s3, gcs = RecordingService(("s3", "s3a")), RecordingService(("gs", "gcs"))

    assert conditions(s3).replace("b/run/lock", b"new", "v1") and conditions(s3).delete("b/run/lock", "v2")
    assert s3.requests == [
        (("put_object",), {"Bucket": "b", "Key": "run/lock", "Body": b"new", "IfMatch": "v1"}),
        (("delete_object",), {"Bucket": "b", "Key": "run/lock", "IfMatch": "v2"}),
    ]
    assert conditions(gcs).replace("b/run/lock", b"new", "7") and conditions(gcs).delete("b/run/lock", "8")
    upload = {"uploadType": "media", "name": "run/lock", "data": b"new", "ifGenerationMatch": "7"}
    assert gcs.requests == [
        (("POST", "https://storage.example/upload/storage/v1/b/{}/o", "b"), upload),
        (("DELETE", "b/{}/o/{}", "b", "run/lock"), {"ifGenerationMatch": "8"}),
    ]


@pytest.mark.parametrize("code", ["PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412"])
def test_a_refused_condition_of_s3_changes_nothing_and_is_no_error(code):
    s3 = S3(RecordingService("s3", s3_error(code)))

    assert s3.replace("b/k", b"", "v") is False and s3.delete("b/k", "v") is False


@pytest.mark.parametrize("fault", [s3_error("AccessDenied"), s3_error("SlowDown"), OSError("no network")])
def test_another_fault_of_s3_is_raised(fault):
    with pytest.raises(OSError) as raised:
        S3(RecordingService("s3", fault)).replace("b/k", b"", "v")
    assert raised.value is fault


@pytest.mark.parametrize("fault", [FileExistsError(), FileNotFoundError()])
def test_a_refused_condition_of_google_changes_nothing_and_is_no_error(fault):
    gcs = Gcs(RecordingService("gs", fault))

    assert gcs.replace("b/k", b"", "1") is False and gcs.delete("b/k", "1") is False
    with pytest.raises(PermissionError):
        Gcs(RecordingService("gs", PermissionError())).delete("b/k", "1")


def test_a_service_without_conditions_is_noticed_before_two_drivers_write():
    fault = s3_error("NotImplemented", errno.ENOSYS)
    assert unsupported(fault) and not unsupported(s3_error("AccessDenied", errno.EACCES))

    absent = conditions(RecordingService("file"))
    assert type(absent) is Conditions
    for service in (S3(RecordingService("s3", fault)), absent):
        with pytest.raises(Unsupported):
            service.replace("b/k", b"", "v")
        with pytest.raises(Unsupported):
            service.delete("b/k", "v")
