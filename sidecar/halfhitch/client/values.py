"""What a program hands to a producer and gets back from it: plain values and the listener's shape.

Named tuples rather than dataclasses: importing `dataclasses` costs more than the whole client.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol

#: User headers: a mapping, or pairs where order and duplicates matter. A value may be null.
Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]


#: What an exception that leaves a block does: a rollback, or nothing (the check-back decides).
OnError = Literal["rollback", "unknown"]


class Message(NamedTuple):
    """One message as it shall appear on its topic; str is sent as UTF-8, None as null."""

    topic: str
    value: bytes | str | None
    key: bytes | str | None = None
    headers: Headers | None = None
    #: Fixes the partition; otherwise it is chosen by key as a Java producer would.
    partition: int | None = None
    #: Only for `send_message_in_transaction`: the id to use (else one is chosen); the listener
    #: always finds the id here. It does not travel with the message in other calls.
    transaction_id: str | None = None


class Prepared(NamedTuple):
    """The messages are stored on all in-sync replicas, invisible."""

    transaction_id: str
    #: Ends the transaction from any process, at any instance. Keep the newest one.
    handle: str


class Ended(NamedTuple):
    """The decision is durable."""

    transaction_id: str
    #: "committed" or "rolled_back".
    state: str
    #: True when the sidecar waited until the decision was carried out, and saw it.
    visible: bool


class TransactionView(NamedTuple):
    """What the coordinator knows of a transaction now."""

    transaction_id: str
    producer_group: str
    #: "pending", "committed" or "rolled_back".
    state: str
    message_count: int
    #: Nothing is left to do: committed and forwarded, or rolled back and dropped.
    visible: bool
    #: The whole answer, with fields that this version of the client does not know.
    details: Mapping[str, Any]


class LocalTransactionState(Enum):
    """What a listener says about its local transaction."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    #: Cannot be said yet. Not a decision: the coordinator will ask later.
    UNKNOWN = "UNKNOWN"


class Check(NamedTuple):
    """The coordinator's question what became of a transaction, for a function given as `check`."""

    transaction_id: str
    producer_group: str
    #: Ends the transaction from anywhere; not needed to answer.
    handle: str
    #: 1 for the first time this is asked; after `number_max` times the coordinator gives up.
    number: int
    number_max: int
    #: How long the coordinator has known the transaction.
    age_s: float
    #: All messages of the transaction. Keys, values and headers are bytes here, whatever was given.
    messages: tuple[Message, ...]
    #: When its first message was stored, milliseconds since 1970; the earlier one of what Kafka's
    #: clock and the sidecar's say. None: the coordinator is of an older version.
    born_ms: int | None = None


class CheckedMessage(Message):
    """The first message of a transaction that is asked about, as a listener gets it."""

    check: Check

    @classmethod
    def of(cls, check: Check) -> "CheckedMessage":
        """What a listener is asked with."""
        made = cls(*check.messages[0])
        made.check = check
        return made

    @property
    def producer_group(self) -> str:
        """The transaction's."""
        return self.check.producer_group

    @property
    def age_s(self) -> float:
        """See `Check`."""
        return self.check.age_s

    @property
    def born_ms(self) -> int | None:
        """See `Check`."""
        return self.check.born_ms


class SendResult(NamedTuple):
    """What became of `send_message_in_transaction`."""

    transaction_id: str
    handle: str
    #: COMMIT and ROLLBACK are durable decisions; UNKNOWN means that none was sent.
    state: LocalTransactionState
    #: The exception out of `execute_local_transaction`, which made the state UNKNOWN.
    error: Exception | None


class TransactionListener(Protocol):
    """The application's side of a transaction, in RocketMQ's shape."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Run the local transaction; called in the thread that sends, once the message is stored.

        Store `message.transaction_id` in the same database transaction: that is what
        `check_local_transaction` can look for later. An exception means UNKNOWN.
        """
        ...

    def check_local_transaction(self, message: Message) -> LocalTransactionState:
        """Say what became of the local transaction of `message.transaction_id`.

        The coordinator asks it of any live producer of the group when a transaction stays
        undecided, so the answer must come from the database, not from this process's memory.
        COMMIT only if the local transaction surely committed; when in doubt, UNKNOWN. An exception,
        and anything else that is not a LocalTransactionState, counts as UNKNOWN: it is asked again.

        It runs in a thread of the producer's own (at most `check_workers` at once), not in the one
        that sends, and perhaps while `execute_local_transaction` is still running for the same
        transaction, here or in another process. Give its database calls a time limit: a check that
        hangs takes one of those places. `message` is the transaction's first, with keys and values
        as bytes; a function given to the producer as `check` sees them all.
        """
        ...


class AsyncTransactionListener(Protocol):
    """TransactionListener for the asyncio producer; see there for what the methods promise."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Run the local transaction, once the message is stored."""
        ...

    async def check_local_transaction(self, message: Message) -> LocalTransactionState:
        """Say what became of the local transaction of `message.transaction_id`.

        It runs in a task of the producer's loop: one that blocks holds up everything there.
        """
        ...
