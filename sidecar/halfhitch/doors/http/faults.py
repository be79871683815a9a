"""Faults of ours: what their caller is told, and what the log.

Owns `failure_reply` and `unread_reply`. Whoever can bring a fault about can do so again and again,
so their lines are bounded like those of strangers.
"""

import logging

from halfhitch.doors.http.errors import INTERNAL, error_reply, status_of
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.requests import Request
from halfhitch.errors import HalfHitchError

_log = logging.getLogger(__name__)


def failure_reply(request: Request, error: Exception, load: Load) -> bytes:
    """The answer when work has failed, by our fault or not."""
    if isinstance(error, HalfHitchError) and status_of(error) != 500:
        return error_reply(error)
    more = load.fault_lines.take()
    if more is not None:
        _log.error(
            "answering a request failed; its outcome is unknown to the caller%s",
            more,
            exc_info=error,
            extra={"action": "http_request_failed", "route": request.route_name},
        )
    return error_reply(INTERNAL)


def unread_reply(error: Exception, load: Load) -> bytes:
    """The answer when a request could not be read, by our fault."""
    more = load.fault_lines.take()
    if more is not None:
        _log.error(
            "reading a request failed%s",
            more,
            exc_info=error,
            extra={"action": "http_reader_failed"},
        )
    return error_reply(INTERNAL)
