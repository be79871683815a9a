"""What can go wrong in a local transaction that is guarded by a barrier.

RequestError
├── TransactionFenced           a check came first and was answered ROLLBACK
└── TransactionRecordedTwice    this id was recorded before
BackendError
└── OutcomeUnknown
    └── LocalOutcomeUnknown     the database did not say whether it committed
"""

from halfhitch.errors import OutcomeUnknown, RequestError


class TransactionFenced(RequestError):
    """A check of this transaction was answered ROLLBACK before its local transaction ended.

    Or an earlier attempt with this id has failed, and the barrier has fenced it.

    The whole local transaction is rolled back: its messages will never be seen, so its rows must
    not be either. Begin anew, with a new transaction id.
    """

    code = "transaction_fenced"

    def __init__(self, transaction_id: str, *, is_sure: bool = True) -> None:
        reason = (
            "it was asked about, and answered ROLLBACK, while this local transaction was running,"
            " or an earlier attempt with this id has failed"
            if is_sure
            else "it was asked about and answered ROLLBACK meanwhile, or an earlier attempt with"
            " this id has failed, or it was recorded before"
        )
        super().__init__(
            f"transaction {transaction_id} is fenced: {reason}. The local transaction has been"
            " rolled back. Begin again with a new transaction id, after a failed attempt too. If"
            " this happens often to first attempts, prepare with a longer immunity (immunity_s) or"
            " give the barrier fence_after_s"
        )
        self.transaction_id = transaction_id


class TransactionRecordedTwice(RequestError):
    """`record` met a note of the same transaction id; the local transaction is rolled back."""

    code = "transaction_recorded_twice"

    def __init__(self, transaction_id: str, *, committed_before: bool) -> None:
        text = (
            "an earlier local transaction of this id has committed, so this one must not run again"
            " and is rolled back. Its messages are never rolled back: leave them to the check-back,"
            " which commits all that were sent under this id"
            if committed_before
            else "call record once in a local transaction, and not inside a barrier's block, which"
            " does it at its end"
        )
        super().__init__(f"transaction {transaction_id} was recorded before: {text}")
        self.transaction_id = transaction_id
        #: The local transaction of this id stands, and its messages are not to be rolled back. A
        #: commit of this attempt would cover what this attempt has sent, perhaps not all.
        self.committed_before = committed_before


class LocalOutcomeUnknown(OutcomeUnknown):
    """The local commit failed in a way that leaves open whether it took place.

    Nothing was decided about the messages: the check-back will, once the database answers.
    """

    code = "local_outcome_unknown"

    def __init__(self, transaction_id: str) -> None:
        super().__init__(
            f"transaction {transaction_id}: the database did not say whether the local transaction"
            " has committed, and could not be asked again. Its messages were neither committed nor"
            " rolled back: the check-back settles it. Do not repeat the work under a new id before"
            " that is known"
        )
        self.transaction_id = transaction_id


def refusal(
    transaction_id: str, outcome: str | None
) -> TransactionFenced | TransactionRecordedTwice:
    """Why a record was refused: the row in its way, "" if none is there, None if nobody knows."""
    if outcome is None or outcome == "fenced":
        return TransactionFenced(transaction_id, is_sure=outcome is not None)
    return TransactionRecordedTwice(transaction_id, committed_before=outcome == "committed")


def stands(error: BaseException) -> bool:
    """Whether it tells that a record of the transaction is committed. False: it tells nothing."""
    return isinstance(error, TransactionRecordedTwice) and error.committed_before
