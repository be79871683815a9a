"""Which blocks are running in this process: what a block will record, nobody else may.

A record of its id on another session, or connection, would be committed without the block's rows:
the block's own is refused then, or waits for that one, and the messages follow somebody else's
commit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from halfhitch.errors import InvalidRequest

#: The table, the group, the id: of each as many as there are attempts at once.
_BLOCKS: Final[dict[tuple[str, ...], list[object]]] = {}


@contextmanager
def block(key: tuple[str, ...]) -> Iterator[None]:
    """One that will record this."""
    mark = object()
    _BLOCKS.setdefault(key, []).append(mark)
    try:
        yield
    finally:
        # No lock, which a fork could leave locked: at worst a misuse is not noticed here.
        marks = _BLOCKS.get(key, [])
        if mark in marks:
            marks.remove(mark)
        if not marks:
            _BLOCKS.pop(key, None)


def require_none(key: tuple[str, ...]) -> None:
    """Raises InvalidRequest for what a block records by itself, at its end."""
    if key in _BLOCKS:
        raise InvalidRequest(
            "record was called inside the barrier's block of this transaction: the block records"
            " at its end, behind all the work, in the local transaction of its own session. Leave"
            " this call out"
        )
