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
from halfhitch.client.recorded import expect, expect_of_another

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


def note_prepared(group: str, prepared: "Prepared", added_to: str | None = None) -> None:
    """The same without a transaction object: of its local transaction only the record is known.

    What is added to a handle that was seen here is the same attempt's, else it is another's.
    """
    transaction_id, key = prepared.transaction_id, (group, prepared.handle)
    talk = _TALKS.get(key)
    if talk is not None and talk.transaction_id != transaction_id:
        _TALKS.pop(key, None)  # another coordinator's, by chance the same
    before = group, added_to
    attempt = expect if before in _PREPARED or before in _TALKS else expect_of_another
    _PREPARED[key] = transaction_id, attempt(group, transaction_id)
    if len(_PREPARED) > PREPARED_MAX:
        _PREPARED.popitem(last=False)


def note_ended(group: str, handle: str) -> None:
    """What was prepared so has ended, durably."""
    _PREPARED.pop((group, handle), None)


async def look(group: str, handle: str) -> None:
    """For asyncio, before `require_end`."""
    talk, prepared = _TALKS.get((group, handle)), _PREPARED.get((group, handle))
    if talk is not None:
        await talk.look()
    if prepared is not None:
        await prepared[1].look()


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
        transaction_id, recorded = prepared
        if operation is Operation.COMMIT:
            recorded.require_end(transaction_id)
        else:
            recorded.require_uncommitted(transaction_id)
