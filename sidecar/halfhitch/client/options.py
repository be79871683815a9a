"""What a producer is made with, and what it lacks: told when it is made or used. No I/O."""

from typing import Any, TypeGuard, TypeVar

from halfhitch.client.unawaited import refuse_async
from halfhitch.errors import ConfigurationError, InvalidRequest

L = TypeVar("L")

#: Clocks and sockets take no endless time.
_DEADLINE_S_MAX = 1e9


def check_limits(deadline_s: object, connections_max: object, check_workers: object) -> None:
    """Of a new producer. Raises ConfigurationError."""
    if not _is_number(deadline_s, int | float) or not 0 < deadline_s <= _DEADLINE_S_MAX:
        raise ConfigurationError(f"deadline_s is {deadline_s!r}: give a call some seconds, e.g. 10")
    if not _is_number(connections_max, int) or connections_max < 1:
        raise ConfigurationError(
            f"connections_max is {connections_max!r}: it takes a whole number, at least 1"
        )
    if not _is_number(check_workers, int) or check_workers < 1:
        raise ConfigurationError(
            f"check_workers is {check_workers!r}: it takes a whole number, at least 1. To answer no"
            " checks, say so with answers_checks=False"
        )


def _is_number(given: object, kind: Any) -> TypeGuard[int]:
    return isinstance(given, kind) and not isinstance(given, bool)


def check_check(check: object, listener: object, *, is_awaited: bool) -> None:
    """Of a new producer: the first check-back is late to notice. Raises ConfigurationError."""
    if not is_awaited:
        refuse_async(check, "check")
        for name in ("check_local_transaction", "execute_local_transaction"):
            refuse_async(getattr(listener, name, None), f"the listener's {name}")
    if check is not None and not callable(check):
        raise ConfigurationError(
            f"check is {type(check).__name__}, which cannot be called: give a function of a Check,"
            " for example check=barrier.check (without brackets), or a listener=..."
        )


def require_listener(listener: L | None) -> L:
    """Raises InvalidRequest."""
    if not callable(getattr(listener, "execute_local_transaction", None)):
        raise InvalidRequest(
            "send_message_in_transaction runs the listener's local transaction, and this producer"
            " has no listener with execute_local_transaction: make it with listener=..."
        )
    assert listener is not None
    return listener


def no_check() -> InvalidRequest:
    """There is nothing that could be asked."""
    return InvalidRequest(
        "this producer cannot answer checks: make it with check=... (a function that takes a Check)"
        " or with a listener that has check_local_transaction"
    )


def check_on_error(on_error: object) -> None:
    """Raises ConfigurationError."""
    if on_error not in ("rollback", "unknown", None):
        raise ConfigurationError(
            f"on_error is {on_error!r}: it takes 'unknown' (an exception that leaves a block sends"
            " nothing, the check-back decides) or 'rollback' (it rolls the messages back)"
        )
