"""Whether a barrier's block is running: told by the end of an object, and by no line of code.

A signal's handler may raise between any two steps of a program (see `turns`), so there is no line
that surely runs when a block ends. Nor is it a weak reference that tells: the collector of cycles
clears those first, and closes a generator afterwards, in whose `finally` the block is still
running. So the object is a view of some bytes: as long as one exists they cannot be made less.

    with mark.hold():
        ...
"""

from typing import Any, TypeVar

V = TypeVar("V")


class Mark:
    """Of one block. What it holds is noted under it, and not found there when it is over."""

    __slots__ = ("_noted", "_room")

    def __init__(self) -> None:
        self._room = bytearray()
        self._noted: list[dict[Mark, Any]] = []

    def hold(self) -> memoryview:
        """From now on, as long as what is returned exists: leave it to a `with` alone.

        A traceback has the variables of its frames, and who keeps it would keep that. A view's
        `__enter__` and `__exit__` are no Python code.
        """
        room = bytearray(1)
        view = memoryview(room)
        self._room = room  # not before: nobody may find it empty
        return view

    @property
    def is_held(self) -> bool:
        """What `hold` returned exists."""
        try:
            self._room.clear()
        except BufferError:
            return True
        return False

    def note(self, registry: "dict[Mark, V]", value: V) -> None:
        """What is held. One step of a dictionary's each, so a fork can leave nothing locked."""
        self._noted.append(registry)
        registry[self] = value

    def forget(self) -> None:
        """Behind the block. Who was interrupted before is forgotten by whoever looks next."""
        while self._noted:
            self._noted.pop().pop(self, None)


def held(registry: dict[Mark, V]) -> list[V]:
    """What running blocks hold."""
    for mark in list(registry):
        if not mark.is_held:
            registry.pop(mark, None)
    return list(registry.values())
