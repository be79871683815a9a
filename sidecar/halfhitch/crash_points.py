"""Places in the owner's work, and in a resume, at which a test may end the process, by name.

In the product `reached` does nothing. A test's launcher puts a function of its own in its place
(`arm`) and dies, or hangs, at the point and the visit of its choice.
"""

from collections.abc import Callable
from typing import Final

#: In the order in which one takeover and one turn of the worker reach them.
NAMES: Final = (
    "before_fence",
    "after_fence",
    "after_positions",
    "mid_replay",
    "after_replay",
    "after_read",
    "after_plan",
    "before_begin",
    "after_begin",
    "after_produce",
    "after_send_offsets",
    "after_commit",
    "before_confirm",
    "after_confirm",
    "before_check_sent",
    "after_check_sent",
    "after_told",
    "before_delete",
    "after_delete",
)
#: Of putting parked transactions back: everything is stored, nothing is committed.
RESUME_NAMES: Final = ("before_resume_commit",)


def _nothing(name: str) -> None:
    pass


_hook: Callable[[str], None] = _nothing


def reached(name: str) -> None:
    """The work has come to this point."""
    _hook(name)


def arm(hook: Callable[[str], None]) -> None:
    """For tests: call `hook` at every point from now on, in whatever thread reaches it."""
    global _hook  # noqa: PLW0603 - one for the whole process, as the process is what dies
    _hook = hook
