"""What this process is doing under which id and handle, whichever of its producers does it. No I/O.

A group may have several producers in a process, and each of them can end what another has begun:
a handle ends its transaction from anywhere. So it is looked up here what stands in the way of that.
Each step is one step of a dictionary's, so there is no lock, which a fork could leave locked.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from halfhitch.client.calls import Operation
from halfhitch.client.conversation import Conversation, held_already
from halfhitch.client.marks import Mark, held
from halfhitch.client.recorded import attempt

if TYPE_CHECKING:
    from halfhitch.client.recorded import Recorded
    from halfhitch.client.values import Prepared

#: Whose ends nobody has seen here: they may come from other processes, or from checks.
PREPARED_MAX: Final = 10_000

#: Of blocks of barriers that are running.
_HELD: Final[dict[Mark, Conversation]] = {}
#: By group and each handle that they were given; alive as long as the program holds them.
_TALKS: Final[WeakValueDictionary[tuple[str, str], Conversation]] = WeakValueDictionary()
#: By group and handle: what was prepared without a transaction object, the oldest first.
_PREPARED: Final[OrderedDict[tuple[str, str], tuple[str, "Recorded"]]] = OrderedDict()


def hold(talk: Conversation, mark: Mark) -> None:
    """A barrier's block begins: it ends the transaction, by no handle, as long as this is held."""
    talk.hold(mark)
    mark.note(_HELD, talk)


def is_held(group: str, transaction_id: str | None) -> bool:
    """By a barrier's block that is running."""
    wanted = group, transaction_id
    return any((talk.group, talk.transaction_id) == wanted for talk in held(_HELD))


def require_unheld_id(
    group: str, transaction_id: str, what: str, by: Conversation | None = None
) -> None:
    """Only barriers' blocks use an id of which one is running.

    Two of them may use it at once, each with a conversation of its own: attempts, and the barrier
    tells which one counts. Raises TransactionMisused.
    """
    if _HELD and not (by is not None and by.is_held) and is_held(group, transaction_id):
        raise held_already(transaction_id, what)


def note_handle(talk: Conversation, handle: str) -> None:
    """Who ends it by this handle is asked, and `talk` told."""
    _TALKS[talk.group, handle] = talk
    _PREPARED.pop((talk.group, handle), None)


def note_prepared(
    group: str, prepared: "Prepared", added_to: str | None = None, *, is_given: bool = True
) -> None:
    """The same without a transaction object: of its local transaction only the record is known.

    What is added to a handle that was seen here is the same attempt's, else it is another's.
    `is_given`: its id was, by the program.
    """
    transaction_id, key = prepared.transaction_id, (group, prepared.handle)
    talk = _TALKS.get(key)
    if talk is not None and talk.transaction_id != transaction_id:
        _TALKS.pop(key, None)  # another coordinator's, by chance the same
    found = None if added_to is None else recorded(group, added_to)
    if found is None:
        found = attempt(group, transaction_id, is_given=is_given)
    found.used()
    _PREPARED[key] = transaction_id, found
    if len(_PREPARED) > PREPARED_MAX:
        _PREPARED.popitem(last=False)


def recorded(group: str, handle: str) -> "Recorded | None":
    """What is known of the attempt that has this handle."""
    prepared, talk = _PREPARED.get((group, handle)), _TALKS.get((group, handle))
    if prepared is not None:
        return prepared[1]
    return None if talk is None else talk.recorded


def note_ended(group: str, handle: str) -> None:
    """What was prepared so has ended, durably."""
    ended = _PREPARED.pop((group, handle), None)
    if ended is not None:
        ended[1].is_over = True


async def look(operation: Operation, group: str, handle: str) -> None:
    """For asyncio, before `require_end`."""
    is_rollback = operation is Operation.ROLLBACK
    talk, prepared = _TALKS.get((group, handle)), _PREPARED.get((group, handle))
    if talk is not None:
        await talk.look(is_rollback=is_rollback)
    if prepared is not None:
        await prepared[1].look(is_rollback=is_rollback)


def require_end(operation: Operation, group: str, handle: str, what: str) -> None:
    """`what` sends a commit or a rollback by this handle next. Raises TransactionMisused."""
    for one in held(_HELD):
        if one.group == group and one.has_had(handle):
            one.require_unheld(what)
    talk = _TALKS.get((group, handle))
    if talk is not None:
        talk.ends_by_handle(operation)
    prepared = _PREPARED.get((group, handle))
    if prepared is not None:
        transaction_id, found = prepared
        if talk is not None and talk.recorded is found:
            return
        if operation is Operation.COMMIT:
            found.require_end(transaction_id)
        else:
            found.require_uncommitted(transaction_id)
