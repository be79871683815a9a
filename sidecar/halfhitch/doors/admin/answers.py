"""How the admin door answers: JSON, and errors as they look at the data door."""

import logging

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from halfhitch.doors.http.errors import (
    INTERNAL,
    ErrorBody,
    ErrorDetail,
    MethodNotAllowed,
    Unauthorized,
    status_of,
)
from halfhitch.errors import BackendError, ContraryDecision, HalfHitchError

logger = logging.getLogger("halfhitch.doors.admin")


class Json(Response):
    """Anything msgspec can encode."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The body."""
        return msgspec.json.encode(content)


def error_answer(error: HalfHitchError) -> Response:
    """Render an error. One that maps to 500 is hidden: its text is for the log."""
    status = status_of(error)
    if status == 500:
        logger.error("the admin door failed: %s", error, extra={"action": "admin_door_failed"})
        error = INTERNAL
    headers = {"WWW-Authenticate": "Half-Token, Bearer"} if isinstance(error, Unauthorized) else {}
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allowed
    if isinstance(error, BackendError):
        headers["Retry-After"] = str(error.retry_after_s)
    detail = ErrorDetail(error.code, error.message, error.retryable)
    if isinstance(error, ContraryDecision):
        detail.decided, detail.requested = error.decided, error.requested
    return Json(ErrorBody(detail), status, headers=headers)


def internal_answer(request: Request, error: Exception) -> Response:
    """For what escaped: a bug of ours. The details are logged and not told."""
    logger.error(
        "the admin door failed on %s", request.url.path, extra={"action": "admin_door_failed"},
        exc_info=error,
    )  # fmt: skip
    return error_answer(INTERNAL)
