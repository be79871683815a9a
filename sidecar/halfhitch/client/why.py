"""Why a check says what it says, from where it is known to where the answer is sent. No I/O.

A function that never raises, like the barrier's, notes what went wrong here, or on what grounds it
has decided. What is noted belongs to the check that this thread or task is answering, and to no
later one.
"""

from contextvars import ContextVar

_error: ContextVar[BaseException | None] = ContextVar("halfhitch_why_unknown", default=None)
_grounds: ContextVar[str] = ContextVar("halfhitch_why_decided", default="")


def note(error: BaseException) -> None:
    """This is why the check that is being answered here will say UNKNOWN."""
    _error.set(error)


def note_grounds(grounds: str) -> None:
    """On these grounds the check that is being answered here says what it says: for the log."""
    _grounds.set(grounds)


def take() -> BaseException | None:
    """What was noted since the last time."""
    error = _error.get()
    if error is not None:
        _error.set(None)
    return error


def take_grounds() -> str:
    """The grounds that were noted since the last time; empty: none."""
    grounds = _grounds.get()
    if grounds:
        _grounds.set("")
    return grounds
