"""Which blocks are running in this process: what a block will record, nobody else may.

A record of its id on another session, or connection, would be committed without the block's rows:
the block's own is refused then, or waits for that one, and the messages follow somebody else's
commit.
"""

from threading import Lock
from typing import Final
from weakref import ref

from halfhitch.errors import InvalidRequest

#: The table, the group, the id: of each as many as there are attempts at once. Each step is one of
#: a dictionary's, so there is no lock, which a fork could leave locked.
_BLOCKS: Final[dict[ref[Lock], tuple[str, ...]]] = {}


def block(key: tuple[str, ...]) -> "Lock":
    """One that will record this, as long as what is returned exists: leave it to a `with` alone.

    A signal's handler may raise between any two steps of it (see `halfhitch.client.turns`).
    """
    mark = Lock()
    _BLOCKS[ref(mark, _BLOCKS.pop)] = key
    return mark


def require_none(key: tuple[str, ...]) -> None:
    """Raises InvalidRequest for what a block records by itself, at its end."""
    if key in list(_BLOCKS.values()):
        raise InvalidRequest(
            "record was called inside the barrier's block of this transaction: the block records"
            " at its end, behind all the work, in the local transaction of its own session. Leave"
            " this call out"
        )
