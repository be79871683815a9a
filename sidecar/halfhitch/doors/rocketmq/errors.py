"""How our errors look to a RocketMQ client: a response code and a remark. Decided here alone.

A Java producer shows both: `CODE: 17 DESC: unknown_topic: topic 'orders' does not exist; ...`. It
tries again by itself, elsewhere if it can, on SYSTEM_ERROR, SYSTEM_BUSY, SERVICE_NOT_AVAILABLE,
NO_PERMISSION, TOPIC_NOT_EXIST and GO_AWAY; under the same UNIQ_KEY, so a repeated half is the same.
"""

from typing import Final

from halfhitch import errors
from halfhitch.errors import HalfHitchError
from halfhitch.wire.plain import shown
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError

#: The most special class that an error has counts.
_RESPONSE_CODES: Final[dict[type[HalfHitchError], int]] = {
    HalfHitchError: codes.SYSTEM_ERROR,
    errors.RequestError: codes.INVALID_PARAMETER,
    errors.InvalidRequest: codes.MESSAGE_ILLEGAL,
    errors.InvalidPartition: codes.INVALID_PARAMETER,
    errors.UnknownTopic: codes.TOPIC_NOT_EXIST,
    errors.ForbiddenTopic: codes.NO_PERMISSION,
    errors.MessageTooLarge: codes.MESSAGE_ILLEGAL,
    errors.WrongGroup: codes.SYSTEM_ERROR,
    errors.Unauthorized: codes.NO_PERMISSION,
    errors.Forbidden: codes.NO_PERMISSION,
    errors.TransactionNotFound: codes.SYSTEM_ERROR,
    errors.TransactionGone: codes.SYSTEM_ERROR,
    errors.ContraryDecision: codes.ILLEGAL_OPERATION,
    errors.TransactionParked: codes.ILLEGAL_OPERATION,
    #: None that clients repeat a message for.
    errors.TransactionReused: codes.MESSAGE_ILLEGAL,
    errors.BackendError: codes.SERVICE_NOT_AVAILABLE,
    errors.Overloaded: codes.SYSTEM_BUSY,
    errors.KafkaUnavailable: codes.SYSTEM_BUSY,
    #: Repeated under the same UNIQ_KEY it is the same message: SYSTEM_ERROR makes clients do that.
    errors.OutcomeUnknown: codes.SYSTEM_ERROR,
    errors.ConfigurationError: codes.NO_PERMISSION,
}
#: As RocketMQ begins the remarks of its own refusals, so that what watches logs for them matches.
_MARKS: Final[dict[type[HalfHitchError], str]] = {
    errors.Overloaded: "[OVERLOAD]",
    errors.KafkaUnavailable: "[REJECTREQUEST]",
}
_REMARK_CHARACTERS_MAX: Final = 1_000


class NoPermission(errors.RequestError):
    """Access key or signature are missing or wrong."""

    code = "no_permission"


def response_of(error: HalfHitchError) -> tuple[int, str]:
    """Response code and remark."""
    message = shown(error.message)
    remark = f"{error.code}: {message}"
    if isinstance(error, RemotingError):
        return error.response_code, message[:_REMARK_CHARACTERS_MAX]
    if isinstance(error, NoPermission):
        return codes.NO_PERMISSION, remark
    for kind in type(error).__mro__:
        if kind in _RESPONSE_CODES:
            mark = _MARKS.get(kind)
            remark = remark if mark is None else f"{mark} {remark}"
            return _RESPONSE_CODES[kind], remark[:_REMARK_CHARACTERS_MAX]
    return codes.SYSTEM_ERROR, remark[:_REMARK_CHARACTERS_MAX]
