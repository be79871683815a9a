"""Who may use a connection: so many at once, in the order of coming. No I/O.

A signal's handler may raise between any two steps of a program. So a place is given back by the end
of an object, and by no line of code: the place is on the stack of a `with` block only, and all that
happens at its end is one step of C. Nothing that a handler interrupts can keep a place.

    with place(bell):           # joins the line, and returns when `admits` says so
        ...
    for bell in line.to_ring(): # a courtesy: who waits also looks for itself now and then
        ring it
"""

from threading import Lock, RLock, get_ident
from typing import Any, Generic, TypeVar, cast
from weakref import ref

B = TypeVar("B")

#: Who waits looks for itself so often: whoever would have rung may have been interrupted.
LOOK_S = 0.5


class Line(Generic[B]):
    """Those who hold a place and those who wait for one. Bells say who is who, by identity."""

    def __init__(self, place_count: int) -> None:
        self._place_count = place_count
        # In the order of coming; one step each, so without a lock.
        self._bells: dict[ref[Lock], B] = {}

    def join(self, bell: B) -> "Lock":
        """A place in the line, as long as what is returned exists: leave it to a `with` alone.

        A lock that nobody else knows, for its `__enter__` and `__exit__` are no Python code.
        """
        place = Lock()
        bells = self._bells
        bells[ref(place, bells.pop)] = bell
        return place

    def admits(self, bell: B) -> bool:
        """It is among the first."""
        return len(self._bells) <= self._place_count or bell in self.admitted()

    def admitted(self) -> list[B]:
        """Those who hold a place."""
        return list(self._bells.values())[: self._place_count]

    def to_ring(self) -> list[B]:
        """When somebody has left: those who may have got a place by that."""
        return self.admitted() if len(self._bells) >= self._place_count else []

    @property
    def is_free(self) -> bool:
        """There is a place for one more."""
        return len(self._bells) < self._place_count


class UnderWay:
    """What has begun and not ended. No I/O."""

    def __init__(self) -> None:
        self._threads: dict[ref[Lock], int] = {}  # one step each, so without a lock

    def begun(self) -> "Lock":
        """One more, as long as what is returned exists: leave it to a `with` alone."""
        mark = Lock()
        threads = self._threads
        threads[ref(mark, threads.pop)] = get_ident()
        return mark

    @property
    def is_over(self) -> bool:
        """Nothing is."""
        return not self._threads

    @property
    def is_over_elsewhere(self) -> bool:
        """Nothing but this thread's own, which goes on when this returns: in a signal's handler."""
        here = get_ident()
        return all(thread == here for thread in list(self._threads.values()))


class Bell:
    """A `threading.Event` that is set once, and that no handler can leave locked."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """May be done twice."""
        try:
            self._lock.release()
        except RuntimeError:
            pass  # rung already

    def wait(self, at_most_s: float, /) -> bool:
        """True: it was rung. For one thread."""
        return self._lock.acquire(timeout=at_most_s)


def is_held_here(lock: "RLock") -> bool:
    """By this very thread, which would go on."""
    return bool(cast("Any", lock)._is_owned())  # noqa: SLF001 - as threading.Condition asks it
