"""What can go wrong on the caller's side of the door; all else comes from `halfhitch.errors`.

BackendError
├── SidecarUnavailable     nothing was stored: the sidecar could not be reached
└── OutcomeUnknown
    ├── PrepareUnknown     messages may or may not be stored; they are invisible either way
    ├── DecisionUnknown    a commit or rollback was sent and its answer never came
    └── BadAnswer          whatever answered does not speak as Half Hitch does
RequestError
├── TransactionEnded       the transaction object was used after its end
├── TransactionDoomed      a message was not sent, so the transaction cannot be committed
├── TransactionMisused     the transaction object was used where or in a way it cannot be
└── ProducerClosed         the producer was used after `close()`
"""

from halfhitch.errors import BackendError, OutcomeUnknown, RequestError


class SidecarUnavailable(BackendError):
    """No connection, or no answer although nothing was asked that stores: surely not stored."""

    code = "sidecar_unavailable"

    def __init__(
        self, address: str, reason: str, *, is_stranger: bool = False, is_explained: bool = False
    ) -> None:
        """`is_stranger`: something listens there, and does not speak HTTP.

        `is_explained`: the reason says what to do.
        """
        if is_explained:
            advice = "Nothing was stored"
        elif is_stranger:
            advice = (
                "Something listens there, but it may be no sidecar: Kafka and Redis answer so, and"
                " a proxy whose sidecar is not up. An address looks like http://127.0.0.1:8340 (the"
                " data door's port, not Kafka's) or unix:/run/halfhitch/data.sock; `halfhitch dev`"
                " and `halfhitch serve` say theirs. Nothing was stored. Give the right one with"
                " address=... or HALFHITCH_ADDRESS"
            )
        else:
            advice = (
                "Start it with `halfhitch serve`, or `halfhitch dev` on a developer's machine; if"
                " it listens elsewhere, say where with address=... or HALFHITCH_ADDRESS"
            )
        super().__init__(f"the sidecar at {address} cannot be reached ({reason}). {advice}")
        self.address = address


class PrepareUnknown(OutcomeUnknown):
    """Storing messages was given up without an answer; they may be stored, but are invisible.

    `handle` is None when these were the transaction's first messages: without a handle nothing
    can be rolled back. That is safe, because only a commit makes messages visible and nobody holds
    the handle to commit with; the check-back asks the producer group and settles it. Repeating the
    prepare with the same `transaction_id` and messages is safe too and gives the handle.
    """

    def __init__(self, reason: str, *, transaction_id: str | None, handle: str | None) -> None:
        if handle is None:
            advice = (
                "Do not go on with the local transaction. There is no handle, so nothing can be"
                " rolled back, and nothing needs to be: stored or not, the messages stay invisible"
                " and the check-back will settle them. Or prepare again with the same"
                f" transaction_id ({transaction_id}) and messages: they are stored once"
            )
        else:
            advice = (
                "Roll the transaction back, or add the same messages again with the same handle:"
                " they are stored once"
            )
        super().__init__(f"the messages may or may not be stored ({reason}). {advice}")
        self.transaction_id = transaction_id
        self.handle = handle


class DecisionUnknown(OutcomeUnknown):
    """A commit or rollback was sent and given up without an answer: it may or may not stand.

    Never answer this with the contrary decision. Repeating the same one is safe.
    """

    def __init__(
        self, reason: str, *, requested: str, handle: str, transaction_id: str | None
    ) -> None:
        super().__init__(
            f"the {requested} was sent but not answered ({reason}): it may or may not be stored."
            f" Call producer.{requested}(handle) again with this error's handle, or leave it to the"
            " check-back; both settle it. Never send the contrary decision now"
        )
        self.requested = requested
        self.handle = handle
        self.transaction_id = transaction_id


class BadAnswer(OutcomeUnknown):
    """Something answered, but not as Half Hitch's data door does."""

    code = "bad_answer"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"{address} gave an answer that Half Hitch does not give ({reason}). Check that the"
            " address is the data door (port 8340 unless set otherwise), not the admin door or"
            " another server"
        )
        self.address = address


class TransactionEnded(RequestError):
    """The transaction object was used after it was committed or rolled back."""

    code = "transaction_ended"


class TransactionDoomed(RequestError):
    """A message of the transaction was not sent, so it cannot be committed.

    The cause (`__cause__`) is what failed, unless it was an `await` that was forgotten.
    """

    code = "transaction_doomed"


class TransactionMisused(RequestError):
    """The transaction object was used in a forked child, in another event loop, or entered twice.

    Or it was ended inside a barrier's block, or its local transaction was recorded by a barrier and
    is still open, or rolled back. Nothing was sent.
    """

    code = "transaction_misused"


class ProducerClosed(RequestError):
    """The producer was used after `close()`."""

    code = "producer_closed"

    def __init__(self, transaction_id: str | None = None) -> None:
        if transaction_id is None:
            told = "this producer is closed; make a new one"
        else:
            told = (
                f"the producer of transaction {transaction_id} was closed before the transaction"
                " ended. Nothing was sent: the check-back will settle what is stored, or end it by"
                " its handle with a new producer. Close a producer after its last block"
            )
        super().__init__(told)
