"""Which blocks are running in this process: what a block will record, nobody else may.

A record of its id on another session, or connection, would be committed without the block's rows:
the block's own is refused then, or waits for that one, and the messages follow somebody else's
commit.
"""

from typing import Final

from halfhitch.client.marks import Mark, held
from halfhitch.errors import InvalidRequest

#: The table, the group, the id: of each as many as there are attempts at once.
_BLOCKS: Final[dict[Mark, tuple[str, ...]]] = {}


def block(key: tuple[str, ...], mark: Mark) -> None:
    """One that will record this, as long as the mark is held."""
    mark.note(_BLOCKS, key)


def require_none(key: tuple[str, ...]) -> None:
    """Raises InvalidRequest for what a block records by itself, at its end."""
    if _BLOCKS and key in held(_BLOCKS):
        raise InvalidRequest(
            "record was called inside the barrier's block of this transaction: the block records"
            " at its end, behind all the work, in the local transaction of its own session. Leave"
            " this call out"
        )
