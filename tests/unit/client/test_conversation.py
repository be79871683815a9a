import sys

import pytest

from halfhitch import errors
from halfhitch.client import conversation
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation
from halfhitch.client.conversation import (
    Conversation,
    Leaving,
    Phase,
)
from halfhitch.client.errors import TransactionDoomed, TransactionEnded, TransactionMisused
from halfhitch.client.recorded import Local, Word, note
from halfhitch.client.values import Message, Prepared

MESSAGES = [Message("t", b"v")]


@pytest.fixture
def talk():
    return Conversation(Calls(parse_address("http://h:1"), "g", None), "t1", 30)


def talk_with(handle):
    talk = Conversation(Calls(parse_address("http://h:1"), "g", None), "t1", 30)
    talk.sent(Prepared("t1", handle))
    return talk


def test_the_first_messages_are_prepared_and_the_next_added_to_the_newest_handle(talk):
    first = talk.next_send(MESSAGES)
    assert (first.operation, first.transaction_id) == (Operation.PREPARE, "t1")
    assert b"Half-Immunity-Seconds: 30" in first.request
    talk.sent(Prepared("t1", "h1"))
    second = talk.next_send(MESSAGES)
    assert (second.operation, second.handle, second.transaction_id) == (Operation.ADD, "h1", "t1")
    talk.sent(Prepared("t1", "h2"))
    commit = talk.next_commit(wait_visible=False)
    assert (commit.operation, commit.handle) == (Operation.COMMIT, "h2")


def test_a_failed_send_leaves_only_the_rollback(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.send_failed(errors.UnknownTopic("no topic 'nowhere'"))
    with pytest.raises(
        TransactionDoomed, match=r"UnknownTopic: no topic 'nowhere'.*roll the local"
    ):
        talk.next_send(MESSAGES)
    with pytest.raises(TransactionDoomed):
        talk.next_commit(wait_visible=False)
    assert talk.wants_end()
    assert talk.next_rollback().handle == "h1"


def test_a_message_behind_the_local_commit_was_taken_and_lost(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.seal()
    with pytest.raises(TransactionEnded, match=r"t1 has begun.*not sent.*own"):
        talk.next_send(MESSAGES)
    assert talk.phase is Phase.OPEN
    assert talk.next_commit(wait_visible=False).handle == "h1"


def test_a_barrier_s_block_asked_for_another_attempt_s_record_by_hand():
    """It knows of its own rows, and what becomes of them: the other one's say nothing."""
    by_hand, block = talk_with("h1"), talk_with("h2")
    note("g", "t1", Word(lambda _: Local.ROLLED_BACK))
    block.rows_stand = True
    assert block.next_commit(wait_visible=False).handle == "h2"
    with pytest.raises(TransactionMisused, match="is rolled back"):
        by_hand.next_commit(wait_visible=False)


def test_what_cannot_be_committed_is_not_sealed(talk):
    talk.send_failed(errors.UnknownTopic("no topic 'nowhere'"))
    with pytest.raises(TransactionDoomed):
        talk.seal()


def test_after_a_commit_began_no_rollback_is_made(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.next_commit(wait_visible=True)
    with pytest.raises(TransactionEnded, match="Commit again"):
        talk.next_rollback()
    with pytest.raises(TransactionEnded, match="commit of this transaction"):
        talk.next_send(MESSAGES)
    assert not talk.wants_end()
    assert talk.next_commit(wait_visible=False).operation is Operation.COMMIT


def test_after_a_rollback_began_no_commit_is_made(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.next_rollback()
    with pytest.raises(TransactionEnded, match="rollback"):
        talk.next_commit(wait_visible=False)
    with pytest.raises(TransactionEnded, match="rollback of this transaction"):
        talk.next_send(MESSAGES)
    assert talk.next_rollback().operation is Operation.ROLLBACK


def test_the_rest_was_committed_without_a_message_of_a_wrong_type(talk):
    talk.sent(Prepared("t1", "h1"))
    with pytest.raises(TypeError):
        talk.next_send([Message("t", 7)])
    with pytest.raises(TransactionDoomed, match="TypeError"):
        talk.assert_can_commit()
    with pytest.raises(TransactionDoomed):
        talk.next_commit(wait_visible=False)
    assert talk.next_rollback().handle == "h1"


def test_the_rest_was_committed_without_a_message_that_was_in_line_at_the_block_s_end(talk):
    """Of a task that was not joined: it was refused where nobody looked."""
    talk.sent(Prepared("t1", "h1"))
    assert talk.leave(None) is Leaving.COMMIT
    with pytest.raises(TransactionEnded, match="was left"):
        talk.next_send(MESSAGES)
    with pytest.raises(TransactionDoomed, match="was left"):
        talk.next_commit(wait_visible=False)


def test_the_rest_was_committed_without_a_message_that_was_refused_before_its_turn(talk):
    """In another event loop, or in a signal's handler inside a call."""
    talk.sent(Prepared("t1", "h1"))
    talk.send_refused(MESSAGES, TransactionMisused("elsewhere"))
    assert talk.phase is Phase.DOOMED
    for use in (talk.assert_can_commit, talk.seal, lambda: talk.next_send(MESSAGES)):
        with pytest.raises(TransactionDoomed, match="TransactionMisused: elsewhere"):
            use()
    with pytest.raises(TransactionDoomed):
        talk.next_commit(wait_visible=False)
    assert talk.next_rollback().handle == "h1"


def test_a_send_behind_the_local_commit_that_nobody_awaited_was_an_order_to_do_it_all_again(talk):
    """TransactionDoomed, though the rows stood and the messages were stored."""
    talk.sent(Prepared("t1", "h1"))
    talk.require_unended()
    talk.seal()
    with pytest.raises(TransactionEnded, match=r"t1 has begun.*not sent"):
        talk.require_unended()
    talk.called("tx.prepare (shop.py:7)", lambda: None)  # whatever is called all the same
    talk.rows_stand = True
    assert talk.next_commit(wait_visible=False).handle == "h1"


def test_a_message_that_is_refused_behind_the_local_commit_dooms_nothing(talk):
    talk.sent(Prepared("t1", "h1"))
    talk.seal()
    talk.send_refused(MESSAGES, TransactionMisused("elsewhere"))
    assert talk.phase is Phase.OPEN
    assert talk.next_commit(wait_visible=False).handle == "h1"


def refused_at_each_step(use):
    """Another thread's send, or a signal's handler's, between any two steps of `use`."""
    number = 0
    while True:
        number += 1
        talk = talk_with("h1")
        left = number

        def step(_, event, __):
            nonlocal left
            left -= event == "opcode"
            if event == "opcode" and not left:
                talk.send_refused(MESSAGES, TransactionMisused("elsewhere"))  # noqa: B023
            return step

        def called(frame, *_):
            frame.f_trace_opcodes = True
            return step if frame.f_code.co_filename == conversation.__file__ else None

        before = sys.gettrace()
        try:
            sys.settrace(called)
            call = use(talk)
        except TransactionDoomed:
            call = None
        finally:
            sys.settrace(before)
        if left > 0:
            return
        yield talk, call


@pytest.mark.parametrize("is_left", [True, False])
def test_a_refusal_in_the_midst_of_a_commit_is_before_it_or_behind_it(is_left):
    """Never both, which would be a rollback behind a commit."""

    def commit(talk):
        if is_left:
            assert talk.leave(None) is Leaving.COMMIT
        return talk.next_commit(wait_visible=False)

    phases = []
    for talk, call in refused_at_each_step(commit):
        assert talk.phase is (Phase.DOOMED if call is None else Phase.COMMITTING)
        phases.append(talk.phase)
    assert phases == sorted(phases, key=[Phase.DOOMED, Phase.COMMITTING].index)
    assert set(phases) == {Phase.DOOMED, Phase.COMMITTING}


def test_a_refusal_as_the_local_commit_begins_is_before_it_or_behind_it():
    """Rows never stood while their messages could only be rolled back."""
    sealed_count = 0
    steps = list(refused_at_each_step(lambda talk: talk.seal() or talk))
    for talk, is_sealed in steps:
        if is_sealed is None:
            assert talk.phase is Phase.DOOMED
        else:
            sealed_count += 1
            assert talk.next_commit(wait_visible=False).handle == "h1"
    assert 0 < sealed_count < len(steps)


def test_no_message_at_all_dooms_nothing(talk):
    with pytest.raises(errors.InvalidRequest):
        talk.next_send([])
    assert talk.phase is Phase.OPEN
    assert talk.next_send(MESSAGES) is not None


def test_without_messages_there_is_nothing_to_end(talk):
    assert talk.next_commit(wait_visible=True) is None
    assert talk.nothing_to_end(Operation.COMMIT) == ("t1", "committed", True)
    assert talk.nothing_to_end(Operation.ROLLBACK) == ("t1", "rolled_back", True)


def test_a_block_is_entered_once(talk):
    talk.enter()
    talk.next_rollback()
    with pytest.raises(TransactionEnded, match="begin a new one"):
        talk.enter()


@pytest.mark.parametrize("operation", [Operation.COMMIT, Operation.ROLLBACK])
def test_a_block_that_was_ended_by_handle_said_that_nothing_was_sent(talk, operation):
    talk.enter()
    talk.sent(Prepared("t1", "h1"))
    talk.ends_by_handle(operation)
    talk.send_failed(errors.UnknownTopic("of a thread that was late"))
    error = ValueError("out of stock")
    assert talk.leave(error) is Leaving.NOTHING
    assert not hasattr(error, "__notes__")
    with pytest.raises(TransactionEnded, match=f"a {operation.value} of transaction t1 was"):
        talk.assert_can_commit()
