"""What is said of transactions beside what is raised: in the log, and in a note on an exception."""

from collections.abc import Sequence

from halfhitch.client.unawaited import not_a_state
from halfhitch.client.values import LocalTransactionState, Prepared, SendResult
from halfhitch.errors import ContraryDecision, HalfHitchError


def note_undecided(error: BaseException, transaction_id: str, *, has_check: bool) -> None:
    """A block was left, and nothing is known of its local transaction."""
    if has_check:
        next_step = "The check-back will ask and settle it."
    else:
        next_step = (
            "This producer has no check: unless another process of the group answers, it waits"
            " until an operator decides (halfhitch tx explain, tx commit, tx rollback)."
        )
    error.add_note(
        f"Half Hitch: transaction {transaction_id} is undecided. Nothing was sent when this left"
        f" its block, for the local transaction may have committed. {next_step}"
    )
    import logging

    is_lost = isinstance(error, GeneratorExit)
    logging.getLogger("halfhitch.client").log(
        logging.WARNING if is_lost or not has_check else logging.INFO,
        "transaction %s is undecided: %s, and nothing was sent. %s",
        transaction_id,
        "the generator or coroutine that held its block was closed or dropped"
        if is_lost
        else f"{type(error).__name__} left its block",
        next_step,
        extra={"action": "block_left_undecided"},
    )


#: Action -> groups of which that has been said: once is enough, however many producers there are.
_told: dict[str, set[str]] = {}
_TOLD_MAX = 100


def note_unanswered(group: str) -> None:
    """A producer without a check begins its first transaction outside a barrier's block."""
    _tell_once(
        "no_check",
        group,
        f"the producer of group {group} has no check: if this process dies inside a block, nobody"
        " here can say what became of the transaction, and in the end it is parked. Give it"
        " check=... (a function of a Check, or barrier.check). If another process or a callback"
        " answers for the group, say so with answers_checks=False",
    )


def note_unasked(group: str) -> None:
    """A producer without a check is used by a barrier's block, whose own check would answer."""
    _tell_once(
        "no_check_of_barrier",
        group,
        f"the producer of group {group} has no check, so nobody asks this barrier: if this process"
        " dies between the local commit and the messages' commit, they wait and are parked in the"
        f' end. Write TransactionProducer("{group}", check=barrier.check), or answers_checks=False'
        " if another process answers",
    )


def _tell_once(action: str, group: str, what: str) -> None:
    groups = _told.setdefault(action, set())
    if group in groups or len(groups) >= _TOLD_MAX:
        return
    groups.add(group)
    import logging

    logging.getLogger("halfhitch.client").warning("%s", what, extra={"action": action})


def note_closed(transaction_ids: Sequence[str]) -> None:
    """A producer is closed while blocks of these transactions are running."""
    if not transaction_ids:
        return
    import logging

    shown = ", ".join(transaction_ids[:3]) + (", ..." if len(transaction_ids) > 3 else "")
    logging.getLogger("halfhitch.client").warning(
        "the producer is closed inside the block of transaction %s: nothing more of it is sent, and"
        " its end will raise ProducerClosed. Close a producer after its last block",
        shown,
        extra={"action": "closed_inside_block"},
    )


def note_rows_stand(error: BaseException, transaction_id: str) -> None:
    """It came between the local commit and the end of the messages' commit.

    By its words alone it could be one that was raised before: whoever takes it for that would do
    the work again.
    """
    if isinstance(error, ContraryDecision):
        what_next = "Its messages were rolled back: look who has done so (halfhitch tx explain)."
    else:
        what_next = "The check-back commits its messages, if they are not committed yet."
    error.add_note(
        f"Half Hitch: the local transaction {transaction_id} has committed, so do not repeat the"
        f" work. {what_next}"
    )


def note_failed_rollback(original: BaseException, error: HalfHitchError) -> None:
    """The exception that left the block stays the one that is raised."""
    if isinstance(error, ContraryDecision):
        original.add_note(
            f"Half Hitch: the transaction's rollback came too late ({error}). Its messages are"
            " visible to consumers, or will be: they stand whatever became of the rows. Look who"
            " has committed them (halfhitch tx explain)"
        )
        return
    original.add_note(
        f"Half Hitch: the transaction's rollback failed too ({error}). Its messages stay"
        " invisible; the check-back will settle it."
    )


def result_of(prepared: Prepared, told: object) -> SendResult:
    """What the listener said; anything that is not a state is UNKNOWN, as in RocketMQ."""
    if isinstance(told, LocalTransactionState):
        return SendResult(prepared.transaction_id, prepared.handle, told, None)
    return failed_result(prepared, not_a_state(told, "execute_local_transaction"))


def failed_result(prepared: Prepared, error: Exception) -> SendResult:
    """The local transaction's fate is not known: say so in the log, send no decision."""
    import logging

    logging.getLogger("halfhitch.client").error(
        "local transaction of %s: state unknown, no decision sent; the check-back will ask",
        prepared.transaction_id,
        exc_info=error,
        extra={"action": "local_transaction_unknown"},
    )
    return SendResult(
        prepared.transaction_id, prepared.handle, LocalTransactionState.UNKNOWN, error
    )
