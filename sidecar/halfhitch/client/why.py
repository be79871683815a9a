"""Why a check says UNKNOWN, from where it is known to where the answer is sent. No I/O.

A function that never raises, like the barrier's, notes what went wrong here. What is noted belongs
to the check that this thread or task is answering, and to no later one.
"""

from contextvars import ContextVar

_error: ContextVar[BaseException | None] = ContextVar("halfhitch_why_unknown", default=None)


def note(error: BaseException) -> None:
    """This is why the check that is being answered here will say UNKNOWN."""
    _error.set(error)


def take() -> BaseException | None:
    """What was noted since the last time."""
    error = _error.get()
    if error is not None:
        _error.set(None)
    return error
