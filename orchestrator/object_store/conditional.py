"""Conditional writes of S3 and Google Cloud Storage: replace or delete an object only if its version is unchanged.

A failed condition changes nothing in the bucket and returns False; a missing response never counts as success.
"""

import errno
from typing import Any

FAILED_CONDITION_CODES = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412")
"""S3's error codes for an object that has another version or is gone; 409 means two conditional writes at the same moment.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""


class Unsupported(Exception):
    """A service or fsspec file system without conditional writes."""


class Conditions:
    """Conditional writes of one kind of service; this base class is for services without them.

    ``path`` is BUCKET/NAME, ``version`` that of ``bucket.StoredObject``.
    Every method raises the service's own errors, and Unsupported if the service answers "not implemented".
    """

    def __init__(self, fs: Any) -> None:
        self.fs = fs

    def replace(self, path: str, content: bytes, version: str) -> bool:
        """Write an object if it has this version."""
        raise Unsupported

    def delete(self, path: str, version: str) -> bool:
        """Delete an object if it has this version."""
        raise Unsupported


class S3(Conditions):
    """Conditions by ``If-Match`` with the object's ETag."""

    def replace(self, path: str, content: bytes, version: str) -> bool:
        return self._call("put_object", path, Body=content, IfMatch=version)

    def delete(self, path: str, version: str) -> bool:
        return self._call("delete_object", path, IfMatch=version)

    def _call(self, operation: str, path: str, **options: Any) -> bool:
        bucket, key, _ = self.fs.split_path(path)
        try:
            self.fs.call_s3(operation, Bucket=bucket, Key=key, **options)
        except OSError as problem:  # s3fs wraps botocore's errors
            if unsupported(problem):
                raise Unsupported from None
            if _code(problem) in FAILED_CONDITION_CODES:
                return False
            raise
        return True


class Gcs(Conditions):
    """Conditions by ``ifGenerationMatch`` with the object's generation; https://cloud.google.com/storage/docs/request-preconditions."""

    def replace(self, path: str, content: bytes, version: str) -> bool:
        bucket, key, _ = self.fs.split_path(path)
        endpoint = f"{self.fs._location}/upload/storage/v1/b/{{}}/o"
        return self._call(
            "POST", endpoint, bucket, uploadType="media", name=key, data=content, ifGenerationMatch=version
        )

    def delete(self, path: str, version: str) -> bool:
        bucket, key, _ = self.fs.split_path(path)
        return self._call("DELETE", "b/{}/o/{}", bucket, key, ifGenerationMatch=version)

    def _call(self, *call: str, **options: Any) -> bool:
        try:
            self.fs.call(*call, **options)
        except (FileExistsError, FileNotFoundError):  # gcsfs raises these for 412 and 404
            return False
        return True


def conditions(fs: Any) -> Conditions:
    """Return the conditional writes of an fsspec file system."""
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    return S3(fs) if "s3" in protocols else Gcs(fs) if "gs" in protocols else Conditions(fs)


def unsupported(problem: OSError) -> bool:
    """Return True if a service answered "not implemented" (501), as older MinIO and Ceph do for a condition."""
    return problem.errno == errno.ENOSYS


def lost_race(problem: OSError) -> bool:
    """Return True if S3 refused a conditional write because another one of the same name was under way (409)."""
    return _code(problem) == "ConditionalRequestConflict"


def _code(problem: OSError) -> str:
    """Return the service's code of an error of s3fs; empty for any other error."""
    response = getattr(problem.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
