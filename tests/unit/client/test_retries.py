import pytest

from halfhitch import errors
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation
from halfhitch.client.errors import DecisionUnknown, PrepareUnknown, SidecarUnavailable
from halfhitch.client.protocol import ProtocolError, Response
from halfhitch.client.retries import PAUSE_S_MAX, Attempts, TransportFailure, words_of
from halfhitch.client.values import Message

CALLS = Calls(parse_address("http://127.0.0.1:8340"), "orders", None)
PREPARE = CALLS.prepare([Message("t", b"v")], "t1", None)
ADD = CALLS.add("h", [Message("t", b"v")], "t1")
COMMIT = CALLS.end(Operation.COMMIT, "h", "t1")
ROLLBACK = CALLS.end(Operation.ROLLBACK, "h")
VIEW = CALLS.view("h")

REFUSED = TransportFailure("connection refused", sent=False)
LOST = TransportFailure("connection reset", sent=True)
STALE = TransportFailure("closed", sent=True, stale=True)


def attempts_of(call, deadline_s=10.0, jitter=lambda: 1.0):
    return Attempts(call, "there", now_s=100.0, deadline_s=deadline_s, jitter=jitter)


def refusal(status, code=None, retry_after=None):
    body = b'{"error":{"code":"%b","message":"told"}}' % code.encode() if code else b""
    headers = {"retry-after": retry_after} if retry_after else {}
    return Response(status, headers, body, reusable=True)


def run(attempts, *events):
    """Feeds failures and answers until one raises; time passes by the pauses asked for."""
    now_s = 100.0
    pauses = []
    for event in events:
        if isinstance(event, TransportFailure):
            pause_s = attempts.failed(event, now_s)
        else:
            pause_s = attempts.answered(event, now_s)
        pauses.append(pause_s)
        now_s += pause_s or 0.0
    return pauses


def give_up(call, *events, error):
    """The error after these events, the last of them until the time is over."""
    attempts = attempts_of(call)
    with pytest.raises(error) as raised:
        run(attempts, *events, *[events[-1]] * 1000)
    return raised.value


def test_pauses_double_up_to_a_limit():
    assert run(attempts_of(VIEW), *[REFUSED] * 7) == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_jitter_takes_away_up_to_half_of_a_pause():
    assert run(attempts_of(VIEW, jitter=lambda: 0.0), REFUSED, REFUSED) == [0.025, 0.05]


def test_retry_after_is_waited_for():
    assert run(attempts_of(VIEW), refusal(429, "overloaded", "3")) == [3]
    assert run(attempts_of(VIEW), refusal(503, "kafka_unavailable", "0")) == [0.05]


def test_no_pause_outlasts_the_deadline():
    with pytest.raises(errors.KafkaUnavailable):
        attempts_of(VIEW, 2.0).answered(refusal(503, "kafka_unavailable", "3"), 100.0)
    attempts = attempts_of(VIEW, deadline_s=3.0)
    with pytest.raises(SidecarUnavailable):
        run(attempts, *[REFUSED] * 100)


def test_a_try_may_take_half_of_the_time_and_never_more_than_is_left():
    attempts = attempts_of(VIEW)
    assert attempts.try_ends_at_s(100.0) == 105.0
    assert attempts.try_ends_at_s(104.0) == 109.0
    assert attempts.try_ends_at_s(107.0) == 110.0


def test_a_connection_that_was_closed_while_idle_costs_no_pause_once():
    assert run(attempts_of(COMMIT), STALE, STALE, STALE) == [0.0, 0.05, 0.1]


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_these_are_tried_again(status):
    assert run(attempts_of(COMMIT), refusal(status, "kafka_unavailable")) == [0.05]
    assert run(attempts_of(COMMIT), refusal(status)) == [0.05]


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 405, 409, 410, 413, 415, 431, 500])
def test_these_never(status):
    with pytest.raises(errors.HalfHitchError):
        attempts_of(VIEW).answered(refusal(status, "new_code"), 100.0)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_a_success_is_the_answer(status):
    assert attempts_of(VIEW).answered(refusal(status), 100.0) is None


@pytest.mark.parametrize("call", [PREPARE, ADD, COMMIT, ROLLBACK, VIEW])
def test_what_was_never_sent_is_surely_not_done(call):
    error = give_up(call, REFUSED, error=SidecarUnavailable)
    assert "there" in str(error)
    assert "halfhitch serve" in str(error)
    error = give_up(call, refusal(503, "kafka_unavailable"), error=errors.KafkaUnavailable)
    assert error.message == "told"


@pytest.mark.parametrize(
    "unclear",
    [LOST, refusal(503, "outcome_unknown"), refusal(503), refusal(502), refusal(503, "new_code")],
)
def test_what_was_sent_and_not_clearly_answered_stays_unknown(unclear):
    assert isinstance(give_up(COMMIT, unclear, error=DecisionUnknown), errors.OutcomeUnknown)
    # No later failure, however clear, speaks of the first try.
    give_up(COMMIT, unclear, REFUSED, error=DecisionUnknown)
    give_up(COMMIT, unclear, refusal(503, "kafka_unavailable"), error=DecisionUnknown)
    give_up(PREPARE, unclear, refusal(429, "overloaded"), error=PrepareUnknown)


def test_a_bug_of_the_sidecar_leaves_the_outcome_unknown_without_trying_again():
    with pytest.raises(DecisionUnknown, match=r"1 try in 0\.0 s"):
        attempts_of(COMMIT).answered(refusal(500, "internal_error"), 100.0)


def test_a_clear_refusal_is_told_even_after_a_lost_try():
    attempts = attempts_of(COMMIT)
    run(attempts, LOST)
    with pytest.raises(errors.ContraryDecision):
        attempts.answered(refusal(409, "contrary_decision"), 101.0)


@pytest.mark.parametrize("call", [PREPARE, ADD, COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    "refused",
    [
        refusal(401, "unauthorized"),
        refusal(403, "forbidden_origin"),
        refusal(404, "transaction_not_found"),
        refusal(400, "invalid_handle"),
        refusal(403),
        refusal(404),
        refusal(409),  # of a proxy: it does not say what was decided
        refusal(410),
        refusal(413),
        refusal(431),
    ],
)
def test_a_refused_repetition_was_told_as_certain_although_the_first_try_was_lost(call, refused):
    """The first commit may stand: a program that compensates on RequestError contradicts it."""
    attempts = attempts_of(call)
    run(attempts, LOST)
    with pytest.raises(errors.OutcomeUnknown, match="says nothing of the tries before") as raised:
        attempts.answered(refused, 101.0)
    assert not isinstance(raised.value, errors.RequestError)
    assert isinstance(raised.value, (DecisionUnknown, PrepareUnknown))
    assert "check-back" in str(raised.value) or raised.value.handle == "h"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "contrary_decision"),
        (409, "committed_in_part"),
        (409, "transaction_parked"),
        (409, "transaction_id_reused"),
        (410, "transaction_gone"),
    ],
)
def test_what_the_coordinator_says_of_the_transaction_is_clear_after_a_lost_try(status, code):
    attempts = attempts_of(COMMIT)
    run(attempts, LOST)
    with pytest.raises(errors.RequestError) as raised:
        attempts.answered(refusal(status, code), 101.0)
    assert raised.value.code == code


def test_a_lost_prepare_says_that_there_is_no_handle_and_why_that_is_safe():
    error = give_up(PREPARE, LOST, error=PrepareUnknown)
    assert (error.transaction_id, error.handle) == ("t1", None)
    for words in ("no handle", "invisible", "check-back", "t1", "connection reset"):
        assert words in str(error)


def test_a_lost_add_has_the_handle_to_roll_back_with():
    error = give_up(ADD, LOST, error=PrepareUnknown)
    assert (error.transaction_id, error.handle) == ("t1", "h")
    assert "Roll the transaction back" in str(error)


@pytest.mark.parametrize(("call", "word"), [(COMMIT, "commit"), (ROLLBACK, "rollback")])
def test_a_lost_end_says_how_to_settle_it(call, word):
    error = give_up(call, LOST, error=DecisionUnknown)
    assert (error.requested, error.handle, error.transaction_id) == (
        word,
        "h",
        call.transaction_id,
    )
    for words in (f"producer.{word}(handle)", "check-back", "Never send the contrary"):
        assert words in str(error)
    assert isinstance(error.__cause__, SidecarUnavailable)


def test_a_lost_view_is_simply_unavailable():
    give_up(VIEW, LOST, error=SidecarUnavailable)


def test_a_durable_decision_is_never_called_unknown():
    waiting = refusal(503, "visibility_unknown")
    assert type(give_up(COMMIT, waiting, error=errors.OutcomeUnknown)) is errors.VisibilityUnknown
    give_up(COMMIT, LOST, waiting, LOST, error=errors.VisibilityUnknown)
    give_up(COMMIT, waiting, REFUSED, error=errors.VisibilityUnknown)


def test_a_full_pool_is_not_blamed_on_the_sidecar():
    busy = TransportFailure("all 2 connections are in use", sent=False, busy=True)
    error = give_up(COMMIT, busy, error=errors.Overloaded)
    assert "connections_max" in str(error)


def test_many_tries_do_not_overflow_the_pause():
    attempts = attempts_of(VIEW, deadline_s=1e9)
    assert run(attempts, *[REFUSED] * 3000)[-1] == PAUSE_S_MAX


def test_failures_are_told_in_words():
    assert words_of(ConnectionRefusedError(111, "Connection refused")) == "connection refused"
    assert words_of(ProtocolError("status line 'x'")).startswith("no proper HTTP answer")
    assert words_of(TimeoutError()) == "no connection in time"
    assert words_of(TimeoutError(110, "Connection timed out")) == "connection timed out"
    assert words_of(OSError()) == "oserror"
