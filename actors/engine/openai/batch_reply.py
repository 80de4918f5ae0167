"""Parses the responses of a service's Batch API (untrusted JSON): batch objects and lines of result files.

Unreadable JSON raises ``UnreadableAnswer``; an optional field of the wrong type gets its default.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from actors.engine.openai.reply import Untrusted, parse_object, validate

FINAL = ("completed", "failed", "expired", "cancelled")
"""Final statuses; the others are ``validating``, ``in_progress``, ``finalizing`` and ``cancelling``."""
EXPIRED = "batch_expired"
"""Error code of a request that the service did not answer in time; it is not billed."""
MISSING = "missing"
"""Our code for a request that a completed batch does not mention."""


def _or(default: Any) -> WrapValidator:
    """Return a validator that replaces an invalid value with ``default``."""

    def replace_invalid(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            return default

    return WrapValidator(replace_invalid)


Required = Annotated[str, Field(min_length=1, max_length=512)]
Text = Annotated[str, Field(max_length=10_000), _or("")]
Number = Annotated[float, Field(ge=0, lt=1e12), _or(0.0)]
Pairs = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]]
Metadata = Annotated[Pairs, Field(max_length=16), _or({})]
"""Bounded by the API's own limits, because a page of batches is kept in memory."""


class ServiceError(Untrusted):
    """An error of a batch or of one of its requests."""

    code: Text = ""
    message: Text = ""


def _first_error(errors: list[Any]) -> list[ServiceError]:
    return [ServiceError.model_validate(error) for error in errors[:1] if isinstance(error, dict)]


class _Errors(Untrusted):
    data: Annotated[list[Any], AfterValidator(_first_error), _or([])] = []


class ServiceBatch(Untrusted):
    """A batch as the service reports it; times are seconds since 1970, 0 if not reported."""

    id: Required
    status: Required
    input_file_id: Text = ""
    output_file_id: Text = ""
    error_file_id: Text = ""
    errors: Annotated[_Errors, _or(_Errors())] = _Errors()
    metadata: Metadata = {}
    created_at: Number = 0.0
    completed_at: Number = 0.0
    failed_at: Number = 0.0
    expired_at: Number = 0.0
    cancelled_at: Number = 0.0

    @property
    def first_error(self) -> ServiceError:
        """The first error with which the service refused the batch; empty if there is none."""
        return self.errors.data[0] if self.errors.data else ServiceError()

    @property
    def seconds(self) -> float:
        """Seconds from its creation to its end."""
        ended = max(self.completed_at, self.failed_at, self.expired_at, self.cancelled_at)
        return max(0.0, ended - self.created_at)

    def carries(self, metadata: Mapping[str, str]) -> bool:
        """Return True if the batch's metadata contains all of these pairs."""
        return metadata.items() <= self.metadata.items()

    def number(self, name: str) -> float:
        """Return a value of the metadata as a number; 0 if it is missing or not a number."""
        try:
            number = float(str(self.metadata.get(name, "")))
        except ValueError:
            return 0.0
        return number if 0 <= number < 1e12 else 0.0


class _Body(Untrusted):
    error: Annotated[ServiceError | None, _or(None)] = None


class _Response(Untrusted):
    status_code: Number = 0.0
    body: Annotated[dict[str, Any], _or({})] = {}


class _Line(Untrusted):
    custom_id: Required
    response: Annotated[_Response, _or(_Response())] = _Response()
    error: Annotated[ServiceError | None, _or(None)] = None


class ResultLine(NamedTuple):
    """The outcome of one request of a batch."""

    id: str
    """The ``custom_id`` that it was sent with."""
    status: int = 0
    """The HTTP status; 0 if the request was never made."""
    body: dict[str, Any] = {}
    code: str = ""
    message: str = ""
    seconds: float = 0.0
    """Seconds from the batch's creation to its end."""


def parse_batch(fields: Mapping[str, Any]) -> ServiceBatch:
    """Return a batch; raises UnreadableAnswer if its id or status is missing."""
    return validate(ServiceBatch, fields)


def parse_line(content: bytes, seconds: float = 0.0) -> ResultLine:
    """Return a line of an output or error file; raises UnreadableAnswer, or ValueError if it is not JSON."""
    line = validate(_Line, parse_object(content))
    status, body = int(line.response.status_code), line.response.body
    error = line.error or _Body.model_validate(body).error or ServiceError()
    return ResultLine(line.custom_id, status, body, error.code, error.message, seconds)
