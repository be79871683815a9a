"""How errors look over HTTP.

Owns the errors that only this door knows (framing, routes, hosts) and STATUS_OF, the one table
from error class to HTTP status. `error_reply` renders any error as
`{"error": {"code", "message", "retryable"}}` with the headers its status asks for.

Invariant: an error that is our fault says so and nothing more; what went wrong is in the log.
"""

import msgspec

from halfhitch import errors
from halfhitch.doors.http.replies import json_reply
from halfhitch.errors import (
    BackendError,
    ContraryDecision,
    HalfHitchError,
    RequestError,
    Unauthorized,
)
from halfhitch.wire.plain import shown


class MalformedRequest(RequestError):
    """The bytes are not one well-framed HTTP/1.1 request."""

    code = "malformed_request"


class TlsExpected(RequestError):
    """The caller speaks plain HTTP to a door that speaks TLS."""

    code = "tls_expected"


class CertificateRequired(RequestError):
    """The caller has shown no client certificate, and the door takes none without."""

    code = "certificate_required"


class HttpVersionNotSupported(RequestError):
    """The caller speaks HTTP/2, HTTP/0.9 or something later."""

    code = "http_version_not_supported"


class HeadersTooLarge(RequestError):
    """The request line and headers exceed a limit."""

    code = "headers_too_large"


class RequestTooSlow(RequestError):
    """The request was not received completely in time."""

    code = "request_too_slow"
    retryable = True


def too_slow(receive_s: float) -> RequestTooSlow:
    """The error of whoever takes longer over one request."""
    return RequestTooSlow(
        f"The request was not complete after {receive_s:g} s; send it faster, or in smaller parts."
    )


class ExpectationFailed(RequestError):
    """An `Expect` other than 100-continue."""

    code = "expectation_failed"


class HostNotAllowed(RequestError):
    """The `Host` is not a name of this door: perhaps a page in a browser, by DNS rebinding."""

    code = "host_not_allowed"


class OriginNotAllowed(RequestError):
    """The request comes from a page in a browser."""

    code = "origin_not_allowed"


class RouteNotFound(RequestError):
    """No route has this path."""

    code = "route_not_found"


class MethodNotAllowed(RequestError):
    """The path exists, but not with this method."""

    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class TooManyConnections(BackendError):
    """The door has as many connections as it may have."""

    code = "too_many_connections"


class ChecksNotServed(BackendError):
    """This door has no check-back behind it."""

    code = "checks_not_served"


class InternalError(HalfHitchError):
    """A bug of ours, as callers see it.

    Retryable, because the caller has to learn what became of its request, and repeating is safe.
    """

    code = "internal_error"
    retryable = True


#: Every class that may reach a caller. A class that is missing here has the status of its base.
STATUS_OF: dict[type[HalfHitchError], int] = {
    errors.RequestError: 400,
    errors.InvalidRequest: 400,
    errors.InvalidJson: 400,
    errors.InvalidBase64: 400,
    errors.ReservedHeader: 400,
    errors.UnknownTopic: 400,
    errors.ForbiddenTopic: 400,
    errors.InvalidPartition: 400,
    errors.InvalidHandle: 400,
    errors.WrongGroup: 400,
    MalformedRequest: 400,
    TlsExpected: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    CertificateRequired: 403,
    HostNotAllowed: 403,
    OriginNotAllowed: 403,
    errors.TransactionNotFound: 404,
    RouteNotFound: 404,
    MethodNotAllowed: 405,
    RequestTooSlow: 408,
    errors.ContraryDecision: 409,
    errors.CommittedInPart: 409,
    errors.TransactionParked: 409,
    errors.TransactionReused: 409,
    errors.TransactionGone: 410,
    errors.MessageTooLarge: 413,
    errors.TransactionTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    ExpectationFailed: 417,
    errors.Overloaded: 429,
    errors.TooManyRequests: 429,
    errors.TooManyUndecided: 429,
    errors.TooManyWaiting: 429,
    errors.OwnerLags: 429,
    HeadersTooLarge: 431,
    errors.HalfHitchError: 500,
    InternalError: 500,
    errors.ConfigurationError: 500,
    errors.TopologyError: 500,
    errors.BelowLogError: 500,
    errors.InvariantViolation: 500,
    errors.BackendError: 503,
    errors.ShuttingDown: 503,
    errors.KafkaUnavailable: 503,
    errors.OutcomeUnknown: 503,
    errors.VisibilityUnknown: 503,
    errors.RedisUnavailable: 503,
    TooManyConnections: 503,
    ChecksNotServed: 503,
    HttpVersionNotSupported: 505,
}


#: The stable codes this door can answer with.
ERROR_CODES = frozenset(
    InternalError.code if status == 500 else error.code for error, status in STATUS_OF.items()
)


class ErrorDetail(msgspec.Struct, omit_defaults=True):
    """What a caller learns; the last two only of a contrary decision."""

    code: str
    message: str
    retryable: bool
    decided: str | None = None
    requested: str | None = None


class ErrorBody(msgspec.Struct):
    """The body of every answer that is an error."""

    error: ErrorDetail


#: What a caller is told when the fault is ours. It must not read as "nothing happened".
INTERNAL = InternalError(
    "Half Hitch failed on this request; the fault is not the request's. Whether it took effect is "
    "not known: repeat it with the same transaction id or handle, which is safe, and please "
    "report what the sidecar has logged."
)


def status_of(error: HalfHitchError) -> int:
    """The HTTP status of an error: its own, or that of the nearest base that has one."""
    return next(STATUS_OF[base] for base in type(error).__mro__ if base in STATUS_OF)


def error_reply(error: HalfHitchError) -> bytes:
    """Render an error. One that maps to 500 is hidden: its text is for the log."""
    status = status_of(error)
    if status == 500:
        error = INTERNAL
    # It may name what was stored before such names were refused.
    detail = ErrorDetail(error.code, shown(error.message), error.retryable)
    if isinstance(error, ContraryDecision):
        detail.decided = error.decided
        detail.requested = error.requested
    return json_reply(status, msgspec.json.encode(ErrorBody(detail)), _extra_headers(error))


def _extra_headers(error: HalfHitchError) -> bytes:
    if isinstance(error, BackendError):
        return b"Retry-After: %d\r\n" % error.retry_after_s
    if isinstance(error, MethodNotAllowed):
        return b"Allow: %b\r\n" % error.allowed.encode()
    if isinstance(error, Unauthorized):
        return b"WWW-Authenticate: %b\r\n" % error.schemes.encode()
    return b""


def certificate_required() -> HalfHitchError:
    """To whoever has not shown the certificate that a door requires."""
    return CertificateRequired(
        "This door asks for a client certificate, and none that is valid now was shown: give one "
        "of an authority in its tls_client_ca (curl: --cert, --key)."
    )
